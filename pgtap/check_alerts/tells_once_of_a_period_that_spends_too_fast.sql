begin;
select plan(13);
create function pg_temp.spend(p_key text, p_micro integer) returns text
language sql
as $$
  select s.status from budget.reserve(p_key, 't-mini', 0, p_micro / 4) r
  cross join lateral budget.settle(r.reservation_id, jsonb_build_object('output', p_micro / 4)) s
$$;
-- 2,400 micro-dollars for a day, and an alert at 20 percent above: 120 an hour is too fast.
select budget_test.at('2027-01-15T00:00:00Z'), budget_test.key(0.0024) as k \gset
select budget.set_budget('o', 'project', 'p', 0.0024, 'day', '{"thresholds": []}');
select budget.set_budget('o', 'org', 'o', 0.008, 'total');
select budget.set_alert_destinations('{webhook}');
select pg_temp.spend(:'k', 288);
select budget_test.at('2027-01-15T02:00:00Z');
select is((budget.check_alerts()).burn_rates, 0, '288 in 2 of 24 hours: less than a tenth of the period is over');
select budget_test.at('2027-01-15T02:24:00Z');
select is((budget.check_alerts()).burn_rates, 0, '288 in 2.4 hours is 2,880 a day: just 120 percent');
select pg_temp.spend(:'k', 4);
select is((budget.check_alerts()).burn_rates, 1, '292 in 2.4 hours is 2,920 a day');
select is((budget.check_alerts()).burn_rates, 0, 'once');
select is(
  (select payload from budget.alert_outbox where kind = 'burn_rate'),
  '{"org": "o", "scope_kind": "key", "scope": "k", "budget": "day", "period": "day", "enforcement": "strict",
    "spent_usd": 0.000292, "limit_usd": 0.0024, "percent": 12.2, "projected_usd": 0.00292, "projected_percent": 121.7,
    "exhausted_at": "2027-01-15T19:43:33Z", "starts_at": "2027-01-15T00:00:00Z", "ends_at": "2027-01-16T00:00:00Z"}',
  'not of the project, which wants no alerts, nor of a period without end'
);
select is((select destination || ' ' || state from budget.alert_outbox), 'webhook pending');
select pg_temp.spend(:'k', 1000);
select is((budget.check_alerts()).burn_rates, 0, 'still once');

select budget_test.at('2027-01-16T12:00:00Z');
select is((budget.check_alerts()).burn_rates, 0, 'the next day, nothing spent');
select pg_temp.spend(:'k', 1440);
select is((budget.check_alerts()).burn_rates, 0, '1,440 at noon is 2,880 a day');
select budget.set_policy('o', '{"burn_rate_percent": 19}');
select is((budget.check_alerts()).burn_rates, 1, 'too fast for an org that says 19 percent');

select budget.set_policy('o', '{"burn_rate_percent": null}');
select budget_test.at('2027-01-17T12:00:00Z');
select budget.set_budget('o', 'key', 'k', 0.0024, 'day', '{"enforcement": "soft"}');
select pg_temp.spend(:'k', 2400);
select is((budget.check_alerts()).burn_rates, 0, 'what has reached its limit is told by its threshold');
select throws_ok($$select budget.set_policy(null, '{"burn_rate_percent": 0}')$$, 'LB101');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
