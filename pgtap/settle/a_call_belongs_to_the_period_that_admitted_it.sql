begin;
select plan(6);
-- PERIOD-03: hold 800 of 1,000 at 23:59:50, usage worth 300 at 00:00:20.
select budget_test.at('2026-11-30 23:59:50+00');
select budget_test.key(0.001) as k \gset
select (budget.reserve(:'k', 't-mini', 400, 100)).reservation_id as r \gset
select budget_test.at('2026-12-01 00:00:10+00');
select is((select available_usd from budget.budget_status), 0.001, 'day 2 before the settle');
select is((select status from budget.reserve(:'k', 't-mini', 1000, 0, 'second')), 'granted');
select budget_test.at('2026-12-02 00:00:20+00');
select budget.settle(:'r', '{"input": 300}');
select results_eq('select * from budget_test.counters()', 'values (300::bigint, 0::bigint), (0, 1000)', 'day 1 has the spend');
select is((select available_usd from budget.budget_status), 0.001, 'day 3 is fresh, two boundaries later');
select is((select count(*)::int from budget_internal.periods), 2);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
