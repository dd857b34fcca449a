begin;
select plan(7);
-- A quarter of the day.
select budget_test.at('2026-11-30 06:00:00+00');
select budget_test.key(0.01) as k \gset
select budget.set_budget('o', 'org', 'o', 1, 'total'), budget.set_budget('o', 'project', 'p', null, 'day');
select budget.settle((budget.reserve(:'k', 't-mini', 5000, 0)).reservation_id, '{"input": 5000}');
-- $0.005 of $0.01 after 6 of 24 hours: twice as fast as the budget lasts, $0.02 at the end, through after 12 hours.
select results_eq(
  $$select elapsed_share, spent_share, pressure, projected_spend_usd, exhausts_at from budget.pressure where period = 'day'$$,
  $$values (0.25, 0.5, 2.0, 0.02, timestamptz '2026-11-30 12:00:00+00')$$
);
select results_eq(
  $$select elapsed_share, spent_share, pressure, projected_spend_usd, exhausts_at from budget.pressure where period = 'total'$$,
  $$values (null::numeric, 0.005, null::numeric, null::numeric, null::timestamptz)$$, 'a total has no end'
);
select is((select count(*)::int from budget.pressure), 2, 'what has no limit is under no pressure');
-- At half the rate it just lasts.
select budget_test.at('2026-11-30 12:00:00+00');
select results_eq(
  $$select elapsed_share, pressure, projected_spend_usd, exhausts_at from budget.pressure where period = 'day'$$,
  $$values (0.5, 1.0, 0.01, null::timestamptz)$$
);
-- Nothing spent, and the first moment of a period.
select budget_test.at('2026-12-01 00:00:00+00');
select is((select row(elapsed_share, spent_share, pressure, projected_spend_usd, exhausts_at)::text from budget.pressure where period = 'day'), '(0.000000,0.000000,,,)');
select budget_test.at('2026-12-01 12:00:00+00');
select is((select row(elapsed_share, spent_share, pressure, projected_spend_usd, exhausts_at)::text from budget.pressure where period = 'day'), '(0.500000,0.000000,0.000000,0,)');
set local role budget_reader;
select is((select count(*)::int from budget.pressure), 2, 'readers may look');
reset role;
select * from finish();
rollback;
