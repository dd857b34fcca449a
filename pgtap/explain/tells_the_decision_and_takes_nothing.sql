begin;
select plan(7);
select budget_test.key(0.0009) as k \gset
select budget.explain(:'k', 't-mini', 100, 200) as e \gset
select is(:'e'::jsonb ->> 'verdict', 'granted');
select is((:'e'::jsonb ->> 'worst_case_usd')::numeric, 0.0009);
select is(jsonb_array_length(:'e'::jsonb -> 'price_lines'), 2);
select is(budget.explain(:'k', 't-mini', 101, 200) ->> 'verdict', 'request_over_limit');
select is(budget.explain('nobody', 't-mini', 101, 200) ->> 'verdict', 'invalid_key');
select is((select count(*)::int from budget_internal.periods), 0);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
