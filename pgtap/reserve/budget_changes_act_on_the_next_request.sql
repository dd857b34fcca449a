begin;
select plan(8);
select budget_test.key(0.0009) as k \gset
select budget.settle((budget.reserve(:'k', 't-mini', 100, 200)).reservation_id, '{"input": 100, "output": 200}');
select is((select code from budget.reserve(:'k', 't-mini', 100, 0)), 'budget_exceeded');
select budget.set_budget('o', 'key', 'k', 0.002, 'day');
select is((select available_usd from budget.budget_status), 0.0011, 'raised; what was spent stays');
select is((select status from budget.reserve(:'k', 't-mini', 100, 0)), 'granted');
select budget.set_budget('o', 'key', 'k', 0.0005, 'day');
select is((select available_usd from budget.budget_status), -0.0005, 'lowered below what is spent and held');
select is((select code from budget.reserve(:'k', 't-mini', 1, 0)), 'budget_exceeded');
select budget.set_budget('o', 'key', 'k', 0.0005, 'week', '{"name": "day"}');
select is((select spent_usd from budget.budget_status), 0::numeric, 'another period is another counter');
select is((select status from budget.reserve(:'k', 't-mini', 100, 0)), 'granted');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
