begin;
select plan(9);
select budget_test.key(0.0009) as k \gset
select budget.set_ladder('o', 'key', 'k', '[{"name": "mini", "model": "t-mini"}, {"name": "short", "model": "t-mini", "max_output_tokens": 100},
  {"name": "stop", "refuse": true}]');
-- t-pro: 150 x $5 + 200 x $30 a million = $0.00675; t-mini: 150 x $1 + 200 x $4 = $0.00095, with 100 tokens $0.00055.
select budget.explain(:'k', 't-pro', 150, 200) as e \gset
select is(:'e'::jsonb ->> 'verdict', 'granted');
select is(:'e'::jsonb ->> 'rung', 'short');
select is(:'e'::jsonb -> 'rung_changes', '{"model": "t-mini", "max_output_tokens": 100}');
select is((:'e'::jsonb ->> 'worst_case_usd')::numeric, 0.00055);
select is(
  (select string_agg(concat_ws(' ', w ->> 'rung', w ->> 'worst_case_usd', w ->> 'outcome', w ->> 'code', w ->> 'scope'), ', ') from jsonb_array_elements(:'e'::jsonb -> 'ways') w),
  '0.00675 refused request_over_limit key, mini 0.00095 refused request_over_limit key, short 0.00055 granted, stop not_tried'
);
select is(:'e'::jsonb -> 'changes', 'null');
select is((select row(r.rung, r.worst_case_nano_usd)::text from budget.reserve(:'k', 't-pro', 150, 200) r), '(short,550000)', 'as reserve does');
select budget.set_ladder('o', 'key', 'k', '[{"name": "wait", "wait_seconds": 7}]');
select is(
  (select concat_ws(' ', e ->> 'verdict', e ->> 'rung', e -> 'ways' -> 1 ->> 'outcome') from budget.explain(:'k', 't-mini', 100, 100) e),
  'budget_busy wait wait'
);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
