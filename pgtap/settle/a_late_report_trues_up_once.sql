begin;
select plan(8);
select budget_test.key(1) as k \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as r \gset
select is((select source || ' ' || flags::text from budget.settle(:'r', null, 'unknown')), 'hold {provisional}');
select results_eq('select * from budget_test.counters()', 'values (900::bigint, 0::bigint)');
select is((select status from budget.settle(:'r', null, 'unknown')), 'repeated');
select is((select status || charged_nano_usd from budget.settle(:'r', '{"input": 100, "output": 300}')), 'trued_up1300000');
select is((select status || charged_nano_usd from budget.settle(:'r', '{"input": 100, "output": 300}')), 'repeated1300000');
select throws_ok(format('select budget.settle(%L, ''{"input": 5}'')', :'r'), 'LB302');
select results_eq('select * from budget_test.counters()', 'values (1300::bigint, 0::bigint)');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
