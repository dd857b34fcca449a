begin;
select plan(5);
select budget_test.key(1) as k \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as id \gset
select budget.delete_scope('o', 'key', 'k');
select is((select code from budget.reserve(:'k', 't-mini', 1, 1)), 'invalid_key');
select results_eq('select * from budget_test.counters()', 'values (0::bigint, 900::bigint)', 'the hold stands');
select is((select status from budget.settle(:'id', '{"input": 100, "output": 100}')), 'settled', 'the charge lands');
select results_eq('select * from budget_test.counters()', 'values (500::bigint, 0::bigint)');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
