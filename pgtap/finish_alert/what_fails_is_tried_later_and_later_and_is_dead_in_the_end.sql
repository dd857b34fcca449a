begin;
select plan(23);
select budget_test.at('2027-01-15T12:00:00Z');
select budget.set_alert_destinations('{slack,webhook}');
select budget.test_alert() as a \gset
create function pg_temp.wait(p_attempt integer) returns table (state text, seconds numeric)
language plpgsql
as $$
begin
  update budget_internal.deliveries set attempts = p_attempt, state = 'pending' where destination = 'slack';
  state := budget.finish_alert((select max(alert_id) from budget_internal.alerts), 'slack', false, 'HTTP 500');
  select extract(epoch from d.next_attempt_at - budget_internal.clock()) into seconds
  from budget_internal.deliveries d where d.destination = 'slack';
  return next;
end
$$;
select cmp_ok(w.seconds, '>=', n.least * 0.75, n.attempt || ' tries')
from (values (1, 10), (2, 30), (3, 90), (4, 270), (5, 810), (6, 2430), (7, 3600), (9, 3600)) n (attempt, least)
cross join lateral pg_temp.wait(n.attempt) w;
select cmp_ok(w.seconds, '<=', n.most * 1.25, n.attempt || ' tries')
from (values (1, 10), (3, 90), (7, 3600)) n (attempt, most)
cross join lateral pg_temp.wait(n.attempt) w;
select isnt((select seconds from pg_temp.wait(5)), (select seconds from pg_temp.wait(5)), 'never all at once');
select is((select state from pg_temp.wait(9)), 'pending');
select is((select state from pg_temp.wait(10)), 'dead', 'ten tries are all');

select claim.alert_id from budget.claim_alerts('w', 10, 60) claim;
select is(budget.finish_alert(:a, 'webhook', false, 'HTTP 429', 500), 'pending');
select is(
  (select next_attempt_at from budget.alert_outbox where destination = 'webhook'), '2027-01-15T12:08:20Z', 'as long as it was told to'
);
select is(budget.finish_alert(:a, 'webhook', false, 'HTTP 404', p_permanent => true), 'dead', 'useless to try again');
select is((select last_error from budget.alert_outbox where destination = 'webhook'), 'HTTP 404');
select is(budget.finish_alert(:a, 'webhook', true), 'delivered', 'a slower worker had more luck');
select is(budget.finish_alert(:a, 'webhook', false, 'HTTP 500'), 'delivered', 'and a slower one less');
select results_eq(
  $$select last_error, delivered_at, claimed_by from budget.alert_outbox where destination = 'webhook'$$,
  $$values (null::text, '2027-01-15T12:00:00Z'::timestamptz, null::text)$$
);
select budget_test.refused(format('select budget.finish_alert(%s, %L, true)', :a, 'smtp'), 'destination');
select budget_test.refused($$select budget.finish_alert(null, 'slack', true)$$, 'alert_id');
select * from finish();
rollback;
