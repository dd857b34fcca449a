begin;
select plan(5);
select budget_test.key() as k \gset
select budget.set_budget('o', 'key', 'k', 0, 'day', '{"enforcement": "soft"}');
select is((select status || ' ' || reserved_nano_usd from budget.reserve(:'k', 't-mini', 100, 200)), 'granted 0', 'over a limit of nothing');
select budget.settle((budget.reserve(:'k', 't-mini', 100, 200)).reservation_id, '{"input": 100, "output": 200}');
select is((select status from budget.reserve(:'k', 't-mini', 100, 200)), 'granted', 'spent over the limit');
select results_eq('select * from budget_test.counters()', 'values (900::bigint, 0::bigint)');
select is((select available_usd from budget.budget_status), -0.0009);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
