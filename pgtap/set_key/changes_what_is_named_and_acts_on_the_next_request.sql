begin;
select plan(8);
select budget_test.key(1, '{"max_output_tokens": 50, "allowed_models": ["t-mini", "t-pro"]}') as k \gset
select budget.set_key('o', 'k', '{"allowed_models": ["t-pro"]}');
select is((select code from budget.reserve(:'k', 't-mini', 1, 1)), 'model_not_allowed');
select is((select max_output_tokens from budget_internal.keys), 50::bigint, 'what is not named stays');
select budget.set_key('o', 'k', '{"allowed_models": null, "max_output_tokens": null, "request_ceiling_usd": 0}');
select is((select code from budget.reserve(:'k', 't-mini', 1, 1)), 'request_over_limit');
select budget.set_key('o', 'k', '{"request_ceiling_usd": null}');
select is((select granted_output_tokens from budget.reserve(:'k', 't-mini', 1, 100)), 100::bigint, 'null takes a setting away');
select budget.set_key('o', 'k', '{"input_bound": "chars3", "allow_unpriced": true, "run_ceiling_usd": 1, "run_max_steps": 2}');
select results_eq('select input_bound, allow_unpriced, run_ceiling_nano_usd::bigint, run_max_steps from budget_internal.keys',
  $$values ('chars3', true, 1000000000::bigint, 2::bigint)$$);
select budget.set_key('o', 'k', '{"input_bound": null, "allow_unpriced": null}');
select results_eq('select input_bound, allow_unpriced from budget_internal.keys', $$values ('bytes', false)$$);
select budget.set_key('o', 'k', '{"expires_at": "2020-01-01T00:00:00Z"}');
select is((select code from budget.reserve(:'k', 't-mini', 1, 1)), 'key_expired');
select lives_ok($$select budget.set_key('o', 'k', '{}')$$);
select * from finish();
rollback;
