begin;
select plan(15);
select budget_test.at('2027-01-15T12:00:00Z');
select budget.set_alert_destinations('{slack,webhook}');
select budget.test_alert() as a \gset
select count(*) from budget.claim_alerts('w', 10, 60);
select is(budget.redrive_alert(:a), 0, 'being delivered now');
select budget.finish_alert(:a, 'slack', false, 'HTTP 404', p_permanent => true), budget.finish_alert(:a, 'webhook', true);
select is(budget.redrive_alert(:a), 1, 'what is dead, not what has arrived');
select results_eq(
  'select destination, state, attempts, last_error from budget.alert_outbox order by destination',
  $$values ('slack', 'pending', 0, 'HTTP 404'), ('webhook', 'delivered', 1, null)$$
);
select is((select destination from budget.claim_alerts('w', 10, 60)), 'slack', 'due at once');
select budget.finish_alert(:a, 'slack', false, 'HTTP 500');
select is((select count(*) from budget.claim_alerts('w', 10, 60)), 0::bigint);
select is(budget.redrive_alert(:a, 'slack'), 1, 'what waits need not wait');
select is((select count(*) from budget.claim_alerts('w', 10, 60)), 1::bigint);
select budget.finish_alert(:a, 'slack', false, 'HTTP 404', p_permanent => true);

select budget.set_alert_destinations('{google_chat}');
select is(budget.redrive_alert(:a), 0, 'nobody delivers there any more');
select is(budget.redrive_alert(:a, 'google_chat'), 1, 'one that it was never for');
select is((select destination from budget.claim_alerts('w', 10, 60)), 'google_chat');
select budget_test.refused(format('select budget.redrive_alert(%s, %L)', :a, 'slack'), 'destination');
select budget_test.refused('select budget.redrive_alert(0)', 'alert_id');
select budget_test.refused('select budget.redrive_alert(null)', 'alert_id');
select budget_test.refused($$select budget.set_alert_destinations('{pager}')$$, 'destinations');
select budget_test.refused($$select budget.set_alert_destinations(null)$$, 'destinations');
select * from finish();
rollback;
