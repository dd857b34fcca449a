begin;
select plan(6);
select budget_test.at('2026-11-30 12:00:00+00');
select budget_test.key(1) as k \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as r from generate_series(1, 4);
create temporary table victim as select reservation_id, row_number() over (order by reservation_id) as n from budget_internal.reservations;
create temporary table before as select * from budget_internal.reservations;
update budget_internal.reservations r set
  held_period_ids = case v.n when 1 then array[-1] else held_period_ids end,
  reserved_nano_usd = case v.n when 2 then -5 when 3 then 900000000000 else reserved_nano_usd end,
  key_id = case v.n when 4 then -1 else key_id end
from victim v where v.reservation_id = r.reservation_id;
select budget_test.at('2026-11-30 12:02:00+00');
select is((select r from budget.reconcile() r), row(0, 4, 0, false)::budget.reconcile_result);
select results_eq(
  'select reconciliation_error_type from budget_internal.reservations r join victim v using (reservation_id) order by v.n',
  $$values ('missing_period'), ('impossible_amount'), ('impossible_amount'), ('missing_key')$$
);
select results_eq('select * from budget_test.counters()', 'values (0::bigint, 3600::bigint)', 'all holds are kept');
update budget_internal.reservations r
set held_period_ids = b.held_period_ids, reserved_nano_usd = b.reserved_nano_usd, key_id = b.key_id
from before b where b.reservation_id = r.reservation_id;
select is((select count(*)::int from before b, budget.reconcile_one(b.reservation_id) c where c.status = 'charged'), 4, 'repaired and charged');
select results_eq('select * from budget_test.counters()', 'values (3600::bigint, 0::bigint)');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
