begin;
select plan(22);
select budget_test.at('2026-11-30 12:00:00+00');
select budget_test.key(1) as k \gset
select budget.set_policy(null, '{"reconcile_max_attempts": 1}');
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as used \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as whole \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as dropped \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as again \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as late \gset
select throws_ok(format('select budget.resolve(%L, ''charge'')', :'used'), 'LB304', null, 'not while it lives');
create temporary table lost as select reservation_id, price_ids from budget_internal.reservations;
update budget_internal.reservations set price_ids = array[-1];
select budget_test.at('2026-11-30 12:02:00+00');
select is((select quarantined from budget.reconcile()), 5);

update budget_internal.reservations r set price_ids = l.price_ids from lost l
where l.reservation_id = r.reservation_id and r.reservation_id in (:'used', :'again');
select is((select status || ' ' || charged_nano_usd || ' ' || source from budget.resolve(:'used', 'charge', '{"input": 100, "output": 100}', 'read in the console of the provider')), 'settled 500000 usage');
select is((select note from budget.ledger where reservation_id = :'used'), jsonb_build_object('by', session_user, 'resolved', 'charge', 'reason', 'read in the console of the provider'), 'the note is in the ledger');
select is((select flags from budget.ledger where reservation_id = :'used'), array['late', 'resolved']);
select is((select status || ' ' || charged_nano_usd from budget.resolve(:'used', 'charge', '{"input": 100, "output": 100}')), 'repeated 500000', 'once');
select throws_ok(format('select budget.resolve(%L, ''release'')', :'used'), 'LB302', null, 'another decision is a conflict');

select is((select status || ' ' || charged_nano_usd || ' ' || source from budget.resolve(:'whole', 'charge')), 'charged 900000 hold', 'its price is lost: the whole hold');
select is((select flags from budget.ledger where reservation_id = :'whole'), array['provisional', 'late', 'resolved', 'missing_price']);
select throws_ok(format('select budget.resolve(%L, ''charge'', ''{"output": 1}'')', :'dropped'), 'LB103', null, 'usage without its price');
select is((select status || ' ' || charged_nano_usd from budget.resolve(:'dropped', 'release', null, 'never sent')), 'released 0');
select is((select status from budget.resolve(:'dropped', 'release')), 'repeated');

select is((select status from budget.resolve(:'again', 'retry')), 'retried');
select results_eq(
  format('select state, reconciliation_attempts, reconciliation_error_type, reconciliation_quarantined_at from budget.reservation_status where reservation_id = %L', :'again'),
  $$values ('open', 0, null::text, null::timestamptz)$$, 'its tries are forgotten'
);
select budget_test.at('2026-11-30 12:02:01+00');
select is((select charged from budget.reconcile()), 1, 'and the next reconcile ends it');
select throws_ok(format('select budget.resolve(%L, ''retry'')', :'again'), 'LB302', null, 'nothing to retry');
select is((select status from budget.settle(:'late', '{"output": 50}')), 'deferred');
select is((select status || ' ' || charged_nano_usd from budget.resolve(:'late', 'charge')), 'charged 900000');
select results_eq('select * from budget_test.counters()', 'values (3200::bigint, 0::bigint)', '500 + 900 + 0 + 900 + 900');
select is((select count(*)::int from budget.audit where subject like 'reservation %'), 7, 'every use is in the audit log');
select results_eq(
  format($$select before ->> 'error_type', after ->> 'action', after ->> 'note', actor = session_user from budget.audit where subject = 'reservation %s' order by audit_id limit 1$$, :'dropped'),
  $$values ('missing_price', 'release', 'never sent', true)$$
);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
