begin;
select plan(4);
call budget_test.tree();
select budget.create_key('o', 'p', 'k', '{"unit": "b", "member": "m", "tags": ["t2", "t1", "t2"]}');
select is(budget_test.chain('k'), 'key k, tag t1, tag t2, member m, unit b, unit a, project p, org o');
select budget.create_key('o', 'p', 'plain');
select results_eq($$
  select expires_at, allowed_models, request_ceiling_nano_usd::bigint, default_max_output_tokens, max_output_tokens, input_bound,
    allow_unpriced, run_ceiling_nano_usd::bigint, run_max_steps
  from budget_internal.keys order by key_id desc limit 1
$$, $$ values (null::timestamptz, null::text[], null::bigint, null::bigint, null::bigint, 'bytes', false, null::bigint, null::bigint) $$, 'the defaults');
select budget.create_key('o', 'q', 'full', '{
  "expires_at": "2099-01-31T00:00:00Z", "allowed_models": ["t-mini"], "request_ceiling_usd": "0.5", "default_max_output_tokens": 10,
  "max_output_tokens": 20, "input_bound": "tokenizer", "allow_unpriced": true, "run_ceiling_usd": 2, "run_max_steps": 30
}');
select results_eq($$
  select expires_at, allowed_models, request_ceiling_nano_usd::bigint, default_max_output_tokens, max_output_tokens, input_bound,
    allow_unpriced, run_ceiling_nano_usd::bigint, run_max_steps
  from budget_internal.keys order by key_id desc limit 1
$$, $$ values (timestamptz '2099-01-31 00:00:00Z', '{t-mini}'::text[], 500000000::bigint, 10::bigint, 20::bigint, 'tokenizer', true, 2000000000::bigint, 30::bigint) $$);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
