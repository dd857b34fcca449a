begin;
select plan(21);
select budget_test.at('2026-11-30 12:00:00+00');
select budget_test.key(1) as k \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as bad \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as good \gset
select price_ids[1] as price from budget_internal.reservations limit 1 \gset
-- As an older layout or a lost row would leave it.
update budget_internal.reservations set price_ids = array[-1] where reservation_id = :'bad';
select budget_test.at('2026-11-30 12:02:00+00');
select is((select r from budget.reconcile() r), row(1, 1, 0, false)::budget.reconcile_result, 'the newer row is not blocked');
select results_eq('select * from budget_test.counters()', 'values (900::bigint, 900::bigint)', 'its hold is kept');
select results_eq(
  'select reconciliation_attempts, reconciliation_error_type, reconcile_after, quarantined, reconciliation_quarantined_at from budget.reservation_status where state = ''open''',
  $$values (1, 'missing_price', '2026-11-30 12:02:30+00'::timestamptz, false, null::timestamptz)$$
);
select is((select failed from budget.reconcile()), 0, 'not before its time');
select budget_test.at('2026-11-30 12:03:00+00');
select is((select failed from budget.reconcile()), 1);
select is((select reconcile_after from budget_internal.reservations), '2026-11-30 12:04:00+00', 'waits twice as long');
select budget_test.at('2026-11-30 13:00:00+00');
select is((select failed from budget.reconcile()), 1);
select budget_test.at('2026-11-30 14:00:00+00');
select is((select failed from budget.reconcile()), 1);
select budget_test.at('2026-11-30 15:00:00+00');
select is((select r from budget.reconcile() r), row(0, 1, 1, false)::budget.reconcile_result, 'the fifth try is the last');
select results_eq(
  'select reconciliation_attempts, quarantined, reconciliation_quarantined_at from budget.quarantine',
  $$values (5, true, '2026-11-30 15:00:00+00'::timestamptz)$$
);
select budget_test.at('2026-12-30 15:00:00+00');
select is((select r from budget.reconcile() r), row(0, 0, 0, false)::budget.reconcile_result, 'left alone');
select is((select alive from budget.heartbeat(array[:'bad'::uuid])), false);
select results_eq('select * from budget_test.counters() limit 1', 'values (900::bigint, 900::bigint)', 'still held');
select is((select status || ' ' || code from budget.settle(:'bad', '{"input": 100, "output": 100}')), 'deferred reservation_malformed', 'a report is kept');
select is((select reported ->> 'outcome' from budget.quarantine), 'finished');
select is((select status from budget.reconcile_one(:'bad')), 'deferred', 'not repaired yet');
update budget_internal.reservations set price_ids = array[:price] where reservation_id = :'bad';
select is((select status || ' ' || charged_nano_usd from budget.reconcile_one(:'bad')), 'settled 500000', 'repaired: the kept report is booked');
select results_eq('select * from budget_test.counters() limit 1', 'values (1400::bigint, 0::bigint)');
select is((select count(*)::int from budget.quarantine), 0);
select is((select count(*)::int from budget_internal.reservations), 0);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
