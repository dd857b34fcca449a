begin;
select plan(8);
select budget_test.at('2026-11-30 12:00:00+00');
select budget_test.key(1) as k \gset
update budget_internal.budgets
set enforcement = 'check', models = '{t-mini}', raise_nano_usd = 500000000, raise_until = '2026-11-30 13:00:00+00', carry_over_cap_nano_usd = 250000000,
  created_at = '2026-11-01 00:00:00+00';
select results_eq(
  'select enforcement::text, models, limit_usd, raise_usd, raise_until, carried_usd, available_usd from budget.budget_status',
  $$values ('check', '{t-mini}'::text[], 1.75, 0.5, timestamptz '2026-11-30 13:00:00+00', 0.25, 1.75)$$,
  'a period that nobody has opened shows what it would carry over'
);
select budget.settle((budget.reserve(:'k', 't-mini', 1000, 0)).reservation_id, '{"input": 1000}');
select is((select row(carried_usd, spent_usd, available_usd)::text from budget.budget_status), '(0.25,0.001,1.749)');
select budget_test.at('2026-11-30 13:00:00+00');
select is((select row(limit_usd, raise_usd, raise_until)::text from budget.budget_status), '(1.25,,)', 'a raise ends at its time');
-- What reserve and explain see is the same.
select is(
  (select (e #>> '{budgets,0,limit_usd}')::numeric from budget.explain(:'k', 't-mini', 1, 1) e), (select limit_usd from budget.budget_status)
);
update budget_internal.budgets set carry_over_cap_nano_usd = null, raise_nano_usd = null, raise_until = null;
select budget_test.at('2026-12-01 00:00:00+00');
select is((select row(limit_usd, carried_usd, spent_usd)::text from budget.budget_status), '(1,,0)');
set local role budget_reader;
select is((select count(*)::int from budget.budget_status), 1, 'readers may look');
reset role;
set local role budget_admin;
select is((select count(*)::int from budget.budget_status), 1, 'and admins');
reset role;
select throws_ok('set local role budget_gateway; select * from budget.budget_status', '42501');
reset role;
select * from finish();
rollback;
