begin;
select plan(11);
select budget_test.key(100, '{"request_ceiling_usd": "0.0009"}') as k \gset
select is((select status from budget.reserve(:'k', 't-mini', 100, 200)), 'granted');
select is((select code from budget.reserve(:'k', 't-mini', 101, 200)), 'request_over_limit');
select results_eq(
  $$select scope_kind, budget_name, retry_after_seconds, message from budget.reserve($$ || quote_literal(:'k') || $$, 't-mini', 101, 200)$$,
  $$values (null::text, null::text, null::integer, 'this request could cost up to $0.000901, more than the ceiling of $0.0009 for one request of this key; lower max_tokens or shorten the input')$$,
  'no budget is named, and no time'
);
select is((select code from budget.reserve(:'k', 't-mini', 100, 200, null, '{"n": 2}')), 'request_over_limit', 'every choice counts');
select matches(
  (select message from budget.reserve(:'k', 't-mini', 100, 200, null, '{"n": 2}')), '; lower max_tokens or n, or shorten the input$'
);
-- It holds where no budget is strict, and comes before what budgets say.
select budget.set_budget('o', 'key', 'k', 0, 'day', '{"enforcement": "soft"}');
select is((select code from budget.reserve(:'k', 't-mini', 101, 200)), 'request_over_limit');
select is((select status || ' ' || reserved_nano_usd from budget.reserve(:'k', 't-mini', 100, 200)), 'granted 0');
select budget.set_budget('o', 'key', 'k', 0, 'day', '{"enforcement": "strict"}');
select is((select budget_name from budget.reserve(:'k', 't-mini', 101, 200)), null);
select is((select budget_name from budget.reserve(:'k', 't-mini', 100, 200)), 'day');
-- An output that a token limit has cut is priced as it was cut: 100 x 1 + 200 x 4.
select budget.set_budget('o', 'key', 'k', 100, 'day'), budget.set_rate_limit('o', 'key', 'k', null, 300);
select is((select granted_output_tokens from budget.reserve(:'k', 't-mini', 100, 5000)), 200::bigint, '5,000 would cost more than the ceiling');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
