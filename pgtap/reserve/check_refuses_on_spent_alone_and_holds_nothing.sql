begin;
select plan(8);
select budget_test.key() as k \gset
select budget.set_budget('o', 'key', 'k', 0.0009, 'day', '{"enforcement": "check"}');
-- Three calls of 900 micro-dollars beside each other, in a budget of 900: nothing is spent yet.
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as first \gset
select is((select reserved_nano_usd from budget.reserve(:'k', 't-mini', 100, 200)), 0::bigint, 'granted, and nothing is held');
select is((select status from budget.reserve(:'k', 't-mini', 1000000, 200)), 'granted', 'more than the whole limit');
select results_eq('select * from budget_test.counters()', 'values (0::bigint, 0::bigint)');
select budget.settle(:'first', '{"input": 100, "output": 199}');
select is((select status from budget.reserve(:'k', 't-mini', 100, 200)), 'granted', '896 of 900 spent: there is room');
select budget.settle((budget.reserve(:'k', 't-mini', 100, 200)).reservation_id, '{"output": 1}');
select results_eq('select * from budget_test.counters()', 'values (900::bigint, 0::bigint)');
select results_eq(
  $$select code, limit_nano_usd, spent_nano_usd, held_nano_usd, available_nano_usd, retry_after_seconds > 0
    from budget.reserve($$ || quote_literal(:'k') || $$, 't-mini', 1, 1)$$,
  $$values ('budget_exceeded', 900000::bigint, 900000::bigint, 0::bigint, 0::bigint, true)$$, 'spent to the limit: refused'
);
select is((select count(*) from budget_internal.reservations where cardinality(held_period_ids) > 0), 0::bigint);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
