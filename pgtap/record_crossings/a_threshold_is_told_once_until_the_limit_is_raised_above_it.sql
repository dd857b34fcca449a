begin;
select plan(10);
-- ALERT-01, in micro-dollars: an output token costs 4. Soft, so that spend may pass the limit.
select budget_test.at('2027-01-15T12:00:00Z'), budget_test.key() as k \gset
select budget.set_budget('o', 'key', 'k', 0.001, 'month', '{"enforcement": "soft", "thresholds": [100, 50, 80]}');
create function pg_temp.spend(p_key text, p_micro integer) returns text
language sql
as $$
  select s.status from budget.reserve(p_key, 't-mini', 0, 1000) r
  cross join lateral budget.settle(r.reservation_id, jsonb_build_object('output', p_micro / 4)) s
$$;
create function pg_temp.told() returns text
language sql
as $$
  select coalesce(string_agg(c.threshold || '/' || c.arming, ' ' order by c.crossing_id), '') from budget_internal.crossings c
$$;
select pg_temp.spend(:'k', 700);
select is(pg_temp.told(), '50/0', '700 of 1,000');
select pg_temp.spend(:'k', 500);
select is(pg_temp.told(), '50/0 80/0 100/0', 'a jump from 700 to 1,200 tells both');
select pg_temp.spend(:'k', 20), pg_temp.spend(:'k', 20);
select is(pg_temp.told(), '50/0 80/0 100/0', 'and no call after it tells again');

select budget.set_budget('o', 'key', 'k', 0.002, 'month');
select pg_temp.spend(:'k', 4);
select is(pg_temp.told(), '50/0 80/0 100/0', '1,244 of 2,000: 80 and 100 are armed again');
select is((select arming from budget_internal.periods), 1, 'together');
select pg_temp.spend(:'k', 456);
select is(pg_temp.told(), '50/0 80/0 100/0 80/1', '1,700 of 2,000');

select budget_test.at('2027-02-01T00:00:00Z');
select pg_temp.spend(:'k', 1100);
select is(pg_temp.told(), '50/0 80/0 100/0 80/1 50/0', 'the next month: 1,100 of 2,000');
select budget.set_budget('o', 'key', 'k', 0.0013, 'month');
select is((budget.check_alerts()).crossings, 1, 'lowered to 1,300');
select is(pg_temp.told(), '50/0 80/0 100/0 80/1 50/0 80/0', '84.6 percent, without another call');
select is((select count(*) from budget_internal.alerts where kind = 'threshold'), 6::bigint, 'an alert each');
select * from finish();
rollback;
