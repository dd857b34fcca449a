begin;
select plan(9);
select budget_test.at('2027-01-15T12:00:00Z'), budget_test.key() as k \gset
select budget.set_budget('o', 'key', 'k', 0.001, 'month', '{"thresholds": [80, 100]}');
create function pg_temp.spend(p_key text, p_micro integer) returns text
language sql
as $$
  select s.status from budget.reserve(p_key, 't-mini', 0, p_micro / 4) r
  cross join lateral budget.settle(r.reservation_id, jsonb_build_object('output', p_micro / 4)) s
$$;
create function pg_temp.told() returns text
language sql
as $$
  select coalesce(string_agg(c.threshold || '/' || c.arming, ' ' order by c.crossing_id), '') from budget_internal.crossings c
$$;
select pg_temp.spend(:'k', 1000);
select is(pg_temp.told(), '80/0 100/0');
select budget.set_budget('o', 'key', 'k', 0.0011, 'month');
select pg_temp.spend(:'k', 100);
select is(
  pg_temp.told(), '80/0 100/0 100/1', 'raised to 1,100: 1,000 is still above 80 percent of it, only 100 may be told again'
);
select budget.set_budget('o', 'key', 'k', 0.0011, 'month', '{"raise_usd": 0.0009, "raise_until": "2027-01-16T00:00:00Z"}');
select pg_temp.spend(:'k', 800);
select is(pg_temp.told(), '80/0 100/0 100/1 80/2', 'raised for a day to 2,000: from 1,100 to 1,900');
select budget_test.at('2027-01-16T00:00:01Z');
select is((budget.check_alerts()).crossings, 1, 'the raise is over');
select is(pg_temp.told(), '80/0 100/0 100/1 80/2 100/2', '1,900 of 1,100');
select is((budget.check_alerts()).crossings, 0, 'told once');

select budget.reset_budget('o', 'key', 'k', 'month');
select pg_temp.spend(:'k', 900);
select is(pg_temp.told(), '80/0 100/0 100/1 80/2 100/2 80/3', 'a reset arms all of them: 900 of 1,100');
select budget.set_budget('o', 'key', 'k', 0.002, 'month');
select budget.set_budget('o', 'key', 'k', 0.0011, 'month');
select is((budget.check_alerts()).crossings, 0, 'raised and lowered again before anyone could see it: nothing new');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
