begin;
select plan(12);
select budget_test.at('2027-01-15 12:00:00+00');
select budget_test.key(0.0018) as k \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as unknown \gset
select budget.settle(:'unknown', null, 'unknown');
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as running \gset
select is((select code from budget.reserve(:'k', 't-mini', 1, 0)), 'budget_busy', '900 spent and 900 held of 1,800');
select budget_test.at('2027-01-15 12:01:00+00');
select budget.reset_budget('o', 'key', 'k', 'day');
select results_eq(
  $$select code, spent_nano_usd, held_nano_usd, available_nano_usd from budget.reserve($$ || quote_literal(:'k') || $$, 't-mini', 901, 0)$$,
  $$values ('budget_busy', 0::bigint, 900000::bigint, 900000::bigint)$$, 'nothing is spent, the running call still holds'
);
select is((select status from budget.reserve(:'k', 't-mini', 100, 200, 'new')), 'granted');
select is((select spent from budget_test.counters()), 900::bigint, 'what was spent stays on the books');
-- The late report of the forgiven charge, 900 -> 100: no more room for it.
select budget.settle(:'unknown', '{"input": 100}');
select is((select code from budget.reserve(:'k', 't-mini', 1, 0)), 'budget_busy', 'an earlier charge is trued up among what is forgiven');
-- The running call ends after the reset, and counts: 900.
select budget.settle(:'running', null, 'unknown');
select results_eq(
  $$select code, spent_nano_usd, held_nano_usd from budget.reserve($$ || quote_literal(:'k') || $$, 't-mini', 1, 0)$$,
  $$values ('budget_busy', 900000::bigint, 900000::bigint)$$
);
select budget.settle((select reservation_id from budget_internal.reservations where request_id = 'new'), '{"input": 900}');
select is((select code from budget.reserve(:'k', 't-mini', 1, 0)), 'budget_exceeded');
-- Its own late report gives room back: 900 -> 400.
select budget.settle(:'running', '{"input": 400}');
select is((select status from budget.reserve(:'k', 't-mini', 500, 0, 'last')), 'granted', '900 + 400 spent of 1,800');
select is((select code from budget.reserve(:'k', 't-mini', 1, 0)), 'budget_busy');
-- A second reset forgives what was spent since; another period is not touched.
select budget_test.at('2027-01-15 12:02:00+00');
select budget.reset_budget('o', 'key', 'k', 'day');
select is((select available_nano_usd from budget.reserve(:'k', 't-mini', 1800, 0)), 1300000::bigint, '500 are held');
select budget_test.at('2027-01-16 12:00:00+00');
select is((select status from budget.reserve(:'k', 't-mini', 1800, 0)), 'granted');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
