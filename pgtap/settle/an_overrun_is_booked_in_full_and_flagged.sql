begin;
select plan(4);
select budget_test.key(0.001) as k \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as r \gset
select is((select overrun from budget.settle(:'r', '{"input": 100, "output": 2000}')), true);
select results_eq('select * from budget_test.counters()', 'values (8100::bigint, 0::bigint)');
select is((select available_usd from budget.budget_status), -0.0071);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
