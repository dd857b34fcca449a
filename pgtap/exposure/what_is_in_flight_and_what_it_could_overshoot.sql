begin;
select plan(6);
select results_eq(
  'select org, in_flight, quarantined, worst_case_usd, held_usd from budget.exposure where org is null',
  'values (null::text, 0::bigint, 0::bigint, 0::numeric, 0::numeric)', 'nothing is in flight'
);
select budget_test.key(1) as k \gset
select budget.reserve(:'k', 't-mini', 100, 200), budget.reserve(:'k', 't-mini', 100, 100);
select budget.create_scope(null, 'org', 'other');
update budget_internal.reservations set reconciliation_quarantined_at = clock_timestamp() where output_tokens = 100;
select set_eq(
  'select org, in_flight, quarantined, worst_case_usd, held_usd from budget.exposure',
  $$values ('o', 2::bigint, 1::bigint, 0.0009, 0.0014), ('other', 0, 0, 0, 0), (null, 2, 1, 0.0009, 0.0014)$$
);
-- 0.5 USD a second x (30 + 60 s) + 2 x 0.0009 USD.
select results_eq(
  'select in_flight, worst_case_usd, held_usd, overshoot_usd, max_loss_usd from budget.exposure_for(30, 60, 0.5)',
  'values (2::bigint, 0.0009, 0.0014, 45.0018, 45::numeric)'
);
select results_eq(
  'select in_flight, overshoot_usd from budget.exposure_for(30, 60, 0.5, ''other'')', 'values (0::bigint, 45::numeric)', 'of one org'
);
select budget_test.refused('select * from budget.exposure_for(-1, 60, 0.5)', 'lag_seconds');
select budget_test.refused('select * from budget.exposure_for(1, 60, ''NaN'')', 'rate_usd_per_second');
select * from finish();
rollback;
