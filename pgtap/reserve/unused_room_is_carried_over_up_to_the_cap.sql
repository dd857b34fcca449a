begin;
select plan(17);
select budget_test.at('2027-01-15 12:00:00+00');
select budget_test.key() as k \gset
select budget.set_budget('o', 'key', 'k', 0.0010, 'day', '{"carry_over_cap_usd": 0.0006}');
prepare rooms as select to_char(starts_at at time zone 'UTC', 'DD'), carried_nano_usd / 1000, spent_nano_usd / 1000, held_nano_usd / 1000
  from budget_internal.periods order by period_id;
select is((select code from budget.reserve(:'k', 't-mini', 1001, 0)), 'request_over_limit', 'the first day has nothing to take over');
select budget.settle((budget.reserve(:'k', 't-mini', 1000, 0)).reservation_id, '{"input": 800}');
select (budget.reserve(:'k', 't-mini', 50, 0)).reservation_id as straggler \gset

-- Day 2: 1,000 - 800 spent - 50 held leave 150 for it.
select budget_test.at('2027-01-16 00:00:00+00');
select is((select code || ' ' || limit_nano_usd from budget.reserve(:'k', 't-mini', 1151, 0)), 'request_over_limit 1150000');
select results_eq('rooms', $$values ('15', 0::bigint, 800::bigint, 50::bigint)$$, 'a refusal makes no period');
select (budget.reserve(:'k', 't-mini', 1150, 0)).reservation_id as r \gset
select results_eq('rooms', $$values ('15', 0::bigint, 800::bigint, 50::bigint), ('16', 150, 0, 1150)$$, 'what is held is not carried');
select budget.settle(:'straggler', '{"input": 10}');
select results_eq('rooms', $$values ('15', 0::bigint, 810::bigint, 0::bigint), ('16', 150, 0, 1150)$$, 'room that comes free later stays where it was');
select is((select code from budget.reserve(:'k', 't-mini', 1, 0)), 'budget_busy');
select budget.settle(:'r', '{"input": 50}');

-- Day 3: 1,150 - 50 leave 1,100, of which the cap lets 600 over.
select budget_test.at('2027-01-17 12:00:00+00');
select is((select code || ' ' || limit_nano_usd from budget.reserve(:'k', 't-mini', 1601, 0)), 'request_over_limit 1600000');
select budget.settle((budget.reserve(:'k', 't-mini', 1600, 0)).reservation_id, '{"input": 1700}');
-- Day 4: an overrun leaves nothing, and takes nothing away.
select budget_test.at('2027-01-18 12:00:00+00');
select is((select code || ' ' || limit_nano_usd from budget.reserve(:'k', 't-mini', 1001, 0)), 'request_over_limit 1000000');
select is((select status from budget.reserve(:'k', 't-mini', 1000, 0, 'd4')), 'granted');
select budget.release((select reservation_id from budget_internal.reservations where request_id = 'd4'));
-- Day 6, after a day without a call: the day before has left all of its 1,000, and no day carries more than the cap.
select budget_test.at('2027-01-20 12:00:00+00');
select is((select code || ' ' || limit_nano_usd from budget.reserve(:'k', 't-mini', 1601, 0)), 'request_over_limit 1600000');
-- (2,000 are carried into day 6 under the new cap.) What is raised for a time is not carried, and a lower cap acts on the next period.
select budget.set_budget('o', 'key', 'k', 0.0010, 'day', '{"raise_usd": 1, "raise_until": "2027-02-01T00:00:00Z", "carry_over_cap_usd": 2}');
select budget.settle((budget.reserve(:'k', 't-mini', 3000, 0)).reservation_id, '{"input": 3000}');
select budget_test.at('2027-01-21 12:00:00+00');
select budget.set_budget('o', 'key', 'k', 0.0010, 'day', '{"raise_usd": null}');
select is((select code || ' ' || limit_nano_usd from budget.reserve(:'k', 't-mini', 1001, 0)), 'request_over_limit 1000000');
select budget_test.at('2027-01-22 12:00:00+00');
select budget.set_budget('o', 'key', 'k', 0.0010, 'day', '{"carry_over_cap_usd": 0.0001}');
select is((select code || ' ' || limit_nano_usd from budget.reserve(:'k', 't-mini', 1101, 0)), 'request_over_limit 1100000');
select budget.set_budget('o', 'key', 'k', 0.0010, 'day', '{"carry_over_cap_usd": null}');
select is((select code || ' ' || limit_nano_usd from budget.reserve(:'k', 't-mini', 1001, 0)), 'request_over_limit 1000000', 'and none when it is gone');

-- A call that waited over midnight comes to a period that is closed: its room is already the next one's. The clock is read
-- before the locks and after them.
select budget.set_budget('o', 'key', 'k', 0.0010, 'day', '{"carry_over_cap_usd": 0.0001}');
create sequence budget_test.readings;
grant usage on schema budget_test to budget_owner;
grant usage on sequence budget_test.readings to budget_owner;
create or replace function budget_internal.clock() returns timestamptz language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$ select case when nextval('budget_test.readings') = 1 then timestamptz '2027-01-22 23:59:59Z' else '2027-01-23 00:00:00Z' end $$;
select is((select code || ' ' || scope_name || ' ' || retry_after_seconds from budget.reserve(:'k', 't-mini', 1, 0)), 'budget_busy k 1');
select is((select status from budget.reserve(:'k', 't-mini', 1, 0)), 'granted', 'try again');
alter sequence budget_test.readings restart;
select budget.set_budget('o', 'key', 'k', 0.0010, 'day', '{"carry_over_cap_usd": null}');
alter sequence budget_test.readings restart;
select is((select status from budget.reserve(:'k', 't-mini', 1, 0)), 'granted', 'what carries nothing over is not closed');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
