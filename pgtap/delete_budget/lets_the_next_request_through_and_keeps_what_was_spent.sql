begin;
select plan(8);
select budget_test.key(0.0009) as k \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as r \gset
select is((budget.reserve(:'k', 't-mini', 100, 200)).code, 'budget_busy');
select budget.delete_budget('o', 'key', 'k', 'day');
select is((budget.reserve(:'k', 't-mini', 100, 200)).status, 'granted', 'the very next request is not held against it');
select is((budget.settle(:'r', '{"input": 100, "output": 50}')).charged_nano_usd, 300000::bigint);
select results_eq('select * from budget_test.counters()', 'values (300::bigint, 0::bigint)', 'a call that ran is charged where it was held');
select is_empty('select * from budget.budget_status');
select throws_ok($$select budget.delete_budget('o', 'key', 'k', 'day')$$, 'LB101', 'budget name "day": the key "k" has no such budget');
select isnt(budget.set_budget('o', 'key', 'k', 1, 'day'), null, 'its name is free again');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
