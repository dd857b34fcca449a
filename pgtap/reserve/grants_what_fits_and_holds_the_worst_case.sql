begin;
select plan(6);
select budget_test.key(0.01) as k \gset
select * from budget.reserve(:'k', 't-mini', 100, 200) \gset
select is((:'status')::text, 'granted');
-- 100 x 1 + 200 x 4 micro-dollars
select is(:reserved_nano_usd, 900000);
select is(:granted_output_tokens, 200);
select results_eq('select * from budget_test.counters()', 'values (0::bigint, 900::bigint)');
select is(:'routes'::jsonb -> 0 ->> 'upstream_model', 't-mini');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
