begin;
select plan(12);
-- PERIOD-01: a day of Shanghai ends at 16:00 UTC.
select budget_test.at('2026-08-19T15:59:59Z'), budget_test.key() as k \gset
select budget.set_budget('o', 'key', 'k', 0.0009, 'day', '{"time_zone": "Asia/Shanghai"}');
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as r \gset
select budget.settle(:'r', '{"input": 100, "output": 200}');
select is((budget.reserve(:'k', 't-mini', 100, 200)).code, 'budget_exceeded');
select is((select ends_at from budget.budget_status), '2026-08-19T16:00:00Z');
select budget_test.at('2026-08-19T16:00:00Z');
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as r \gset
select isnt(:'r'::uuid, null, 'admitted');
select is((select starts_at from budget.budget_status), '2026-08-19T16:00:00Z');
select results_eq('select * from budget_test.counters()', 'values (900::bigint, 0::bigint), (0, 900)');
select budget.settle(:'r', '{"input": 100, "output": 200}');

-- PERIOD-04: nothing ran for three days; there is one new period, of today, and all of it is there.
select is((budget.reserve(:'k', 't-mini', 100, 200)).code, 'budget_exceeded');
select budget_test.at('2026-08-23T03:00:00Z');
select results_eq(
  'select spent_usd, available_usd, starts_at from budget.budget_status', $$values (0::numeric, 0.0009, '2026-08-22T16:00:00Z'::timestamptz)$$,
  'seen before anything has asked for it'
);
select is((budget.reserve(:'k', 't-mini', 100, 200)).status, 'granted');
select is((budget.reserve(:'k', 't-mini', 100, 200)).code, 'budget_busy');
select is((select count(*) from budget_internal.periods), 3::bigint);
select is((select starts_at from budget_internal.periods order by period_id desc limit 1), '2026-08-22T16:00:00Z');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
