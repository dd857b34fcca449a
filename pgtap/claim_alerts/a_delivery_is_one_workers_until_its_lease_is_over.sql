begin;
select plan(13);
select budget_test.at('2027-01-15T12:00:00Z');
select budget.set_policy(null, '{"alert_max_attempts": 3}');
select is((select budget.test_alert()) > 0, true, 'nothing is configured');
select is((select count(*) from budget.claim_alerts('w', 10, 60)), 0::bigint, 'so nothing is to be done');
select budget.set_alert_destinations('{slack,webhook}');
select budget.test_alert() as a, budget.test_alert() as b \gset
select results_eq(
  format('select alert_id, destination, attempt, kind from budget.claim_alerts(%L, 10, 60, %L)', 'w', '{slack}'),
  format($$values (%s::bigint, 'slack', 1, 'test'), (%s::bigint, 'slack', 1, 'test')$$, :'a', :'b'), 'of one destination'
);
select is((select count(*) from budget.claim_alerts('v', 1, 60)), 1::bigint, 'at most so many');
select is((select count(*) from budget.claim_alerts('v', 10, 60)), 1::bigint, 'the rest');
select is((select count(*) from budget.claim_alerts('v', 10, 60)), 0::bigint, 'each has its worker');
select budget_test.at('2027-01-15T12:01:00Z');
select is((select array_agg(attempt) from budget.claim_alerts('v', 10, 60)), '{2,2,2,2}', 'which never came back: the second try');
select budget_test.at('2027-01-15T12:02:00Z');
select is((select array_agg(attempt) from budget.claim_alerts('v', 10, 60)), '{3,3,3,3}', 'the last');
select budget_test.at('2027-01-15T12:03:00Z');
select is((select count(*) from budget.claim_alerts('v', 10, 60)), 0::bigint);
select results_eq(
  'select distinct state, attempts, last_error, claimed_by from budget.alert_outbox where state is not null',
  $$values ('dead', 3, 'the worker that had it never came back', null::text)$$
);
select budget_test.refused($$select budget.claim_alerts('', 1, 60)$$, 'worker');
select budget_test.refused($$select budget.claim_alerts('w', 0, 60)$$, 'limit');
select budget_test.refused($$select budget.claim_alerts('w', 1, null)$$, 'lease_seconds');
select * from finish();
rollback;
