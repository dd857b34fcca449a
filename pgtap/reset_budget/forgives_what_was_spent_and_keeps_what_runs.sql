begin;
select plan(11);
-- BUDGET-02: limit 5,000, spent 5,000, a stream that holds 900.
select budget_test.at('2027-01-15T12:00:00Z'), budget_test.key(0.005) as k \gset
select (budget.reserve(:'k', 't-mini', 1000, 1000)).reservation_id as r \gset
select is((budget.settle(:'r', '{"input": 1000, "output": 1000}')).charged_nano_usd, 5000000::bigint);
select is((budget.reserve(:'k', 't-mini', 100, 200)).code, 'budget_exceeded');
select budget.set_budget('o', 'key', 'k', 0.02, 'day');
select is((select available_usd from budget.budget_status), 0.015, 'raised: 15,000 left at once');
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as r \gset
select budget.set_budget('o', 'key', 'k', 0.003, 'day');
select is((select available_usd from budget.budget_status), -0.0029, 'lowered: 3,000 - 5,000 - 900');
select is((budget.reserve(:'k', 't-mini', 100, 200)).code, 'budget_exceeded');
select budget.reset_budget('o', 'key', 'k', 'day');
select results_eq(
  'select spent_usd, reserved_usd, available_usd from budget.budget_status', 'values (0::numeric, 0.0009, 0.0021)', 'reset: the stream is still held'
);
select is((budget.settle(:'r', '{"input": 100, "output": 50}')).charged_nano_usd, 300000::bigint);
select results_eq(
  'select spent_usd, reserved_usd, available_usd from budget.budget_status', 'values (0.0003::numeric, 0::numeric, 0.0027)', 'and counts with what it cost'
);
select is((budget.reserve(:'k', 't-mini', 100, 200)).status, 'granted');
select is((select sum(amount_nano_usd) from budget_internal.ledger_entries), 5300000::numeric, 'the ledger has it all');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
