begin;
select plan(19);
select budget_test.at('2027-01-15T12:00:00Z'), budget_test.key() as k \gset
create temporary view now_is as
select
  b.limit_nano_usd / 1000000000 as usd, b.enforcement::text, b.models, b.raise_nano_usd / 1000000000 as raise, b.raise_until,
  b.carry_over_cap_nano_usd / 1000000000 as carry, b.time_zone, b.fiscal_month, b.fiscal_day
from budget_internal.budgets b where b.deleted_at is null;
select budget.set_budget('o', 'key', 'k', 100, 'quarter', '{
  "name": "b", "enforcement": "check", "models": ["t-pro", "t-mini", "t-pro"], "raise_usd": "20.5", "raise_until": "2027-02-01T00:00:00Z",
  "carry_over_cap_usd": 10, "time_zone": "Europe/Paris", "fiscal_month": 4, "fiscal_day": 6
}') as id \gset
prepare first as select 100::bigint, 'check', array['t-mini', 't-pro'], 20::bigint, '2027-02-01T00:00:00Z'::timestamptz, 10::bigint,
  'Europe/Paris', 4::smallint, 6::smallint;
select results_eq('select * from now_is', 'first', 'all as given');
select is((select raise_nano_usd::bigint from budget_internal.budgets), 20500000000, 'to the nano-dollar');

select is(budget.set_budget('o', 'key', 'k', 200, 'quarter', '{"name": "b"}'), :'id', 'a raise of the limit is the same budget');
select is((select row(b.*)::text from now_is b), '(200,check,"{t-mini,t-pro}",20,"2027-02-01 00:00:00+00",10,Europe/Paris,4,6)', 'and leaves all else');
select is(budget.set_budget('o', 'key', 'k', 200, 'quarter', '{"name": "b", "raise_until": "2027-03-01T00:00:00Z"}'), :'id');
select is((select row(raise, raise_until)::text from now_is), '(20,"2027-03-01 00:00:00+00")', 'half of a raise stays too');

select budget.set_budget('o', 'key', 'k', 200, 'quarter', '{"name": "b", "models": null, "enforcement": null, "raise_usd": null}');
select is((select row(b.*)::text from now_is b), '(200,strict,,,,10,Europe/Paris,4,6)', 'null takes away, of a raise both halves');
select isnt(
  budget.set_budget('o', 'key', 'k', 200, 'quarter', '{"name": "b", "time_zone": null, "fiscal_month": null, "fiscal_day": null}'), :'id',
  'what moves the periods is another budget'
);
select is((select row(b.*)::text from now_is b), '(200,strict,,,,10,UTC,1,1)', 'back at the defaults');

select budget.set_budget('o', 'key', 'k', 200, 'year', '{"name": "b", "fiscal_month": 4}');
select is((select row(b.*)::text from now_is b), '(200,strict,,,,10,UTC,4,1)');
select budget.set_budget('o', 'key', 'k', 200, 'quarter', '{"name": "b"}');
select is((select fiscal_month::integer from now_is), 4, 'a fiscal start stays from year to quarter');
select budget.set_budget('o', 'key', 'k', 200, 'month', '{"name": "b"}');
select is((select fiscal_month::integer from now_is), 1, 'and means nothing for a month');

select budget.set_budget('o', 'key', 'k', 200, 'month', '{"name": "b", "raise_usd": 5, "raise_until": "2027-01-16T00:00:00Z"}');
select budget_test.at('2027-01-17T12:00:00Z');
select budget.set_budget('o', 'key', 'k', 300, 'month', '{"name": "b"}');
select is((select row(b.*)::text from now_is b), '(300,strict,,,,10,UTC,1,1)', 'a raise that is over goes');
select budget.set_budget('o', 'key', 'k', null, 'month', '{"name": "b"}');
select is((select row(b.*)::text from now_is b), '(,strict,,,,,UTC,1,1)', 'without a limit there is nothing to carry over');

select budget.set_budget('o', 'key', 'k', 1, '7d', '{"name": "c", "anchor_at": "2027-01-01T06:00:00Z"}') as id \gset
select is(budget.set_budget('o', 'key', 'k', 2, '7d', '{"name": "c"}'), :'id', 'an anchor stays');
select is(budget.set_budget('o', 'key', 'k', 2, '7d', '{"name": "c", "anchor_at": null}'), :'id', 'there is none to take away');
select isnt(budget.set_budget('o', 'key', 'k', 2, '30d', '{"name": "c"}'), :'id');
select is(
  (select anchor_at from budget_internal.budgets where name = 'c' and deleted_at is null), '2027-01-17T12:00:00Z',
  'another length is counted from now'
);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
