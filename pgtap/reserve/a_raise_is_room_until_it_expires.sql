begin;
select plan(9);
select budget_test.at('2027-01-15 12:00:00+00');
select budget_test.key(0.0009) as k \gset
select is((select code from budget.reserve(:'k', 't-mini', 100, 201)), 'request_over_limit');
select budget.set_budget('o', 'key', 'k', 0.0009, 'day', '{"raise_usd": 0.0009, "raise_until": "2027-01-15T13:00:00Z"}');
select is((select status from budget.reserve(:'k', 't-mini', 100, 425)), 'granted', '1,800 from the very next request on');
select is((select code || ' ' || limit_nano_usd from budget.reserve(:'k', 't-mini', 1, 0)), 'budget_busy 1800000');
select budget.settle((select reservation_id from budget_internal.reservations), '{"input": 1000}');
select budget_test.at('2027-01-15 12:59:59.999999+00');
select is((select status from budget.reserve(:'k', 't-mini', 100, 0, 'last')), 'granted', 'to the last instant');
select budget.release((select reservation_id from budget_internal.reservations where request_id = 'last'));
select budget_test.at('2027-01-15 13:00:00+00');
select is((select code || ' ' || limit_nano_usd || ' ' || available_nano_usd from budget.reserve(:'k', 't-mini', 100, 0)),
  'budget_exceeded 900000 -100000', 'over: 1,000 spent of 900');
select is((select code from budget.reserve(:'k', 't-mini', 901, 0)), 'request_over_limit');
select budget_test.at('2027-01-16 00:00:00+00');
select is((select status from budget.reserve(:'k', 't-mini', 100, 200)), 'granted', 'the next day has its own 900');
select is((select code from budget.reserve(:'k', 't-mini', 1, 0)), 'budget_busy');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
