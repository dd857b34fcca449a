begin;
select plan(9);
select budget_test.key(1) as k \gset
select (budget.reserve(:'k', 't-mini', 1000, 200)).reservation_id as r \gset
select * from budget.settle(:'r', '{"input": 80, "cache_read": 20, "output": 200}') \gset
-- 80 + 20 x 0.25 + 200 x 4
select is(:charged_nano_usd, 885000);
select is((:'status' || ' ' || :'source')::text, 'settled usage');
select results_eq('select * from budget_test.counters()', 'values (885::bigint, 0::bigint)');
select is((select status from budget.settle(:'r', '{"input": 80, "cache_read": 20, "output": 200}')), 'repeated');
select throws_ok(format('select budget.settle(%L, ''{"input": 81, "output": 200}'')', :'r'), 'LB302');
select throws_ok(format('select budget.release(%L)', :'r'), 'LB302');
select throws_ok('select budget.settle(gen_random_uuid(), ''{"input": 81}'')', 'LB301');
select results_eq('select * from budget_test.counters()', 'values (885::bigint, 0::bigint)', 'charged once');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
