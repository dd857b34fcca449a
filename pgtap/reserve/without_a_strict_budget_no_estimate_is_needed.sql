begin;
select plan(14);
select budget_test.key() as k \gset
select budget.set_budget('o', 'key', 'k', 1, 'day', '{"enforcement": "check"}'), budget.set_budget('o', 'org', 'o', 1, 'day', '{"enforcement": "soft"}');
select results_eq(
  $$select status, reserved_nano_usd, worst_case_nano_usd, granted_output_tokens
    from budget.reserve($$ || quote_literal(:'k') || $$, 't-mini', null, 200, 'blind')$$,
  $$values ('granted', 0::bigint, null::bigint, 200::bigint)$$, 'no input tokens: none are needed'
);
select budget.set_model('simulator', 'unpriced', 1000, 10), budget.set_route(null, 'unpriced', 'simulator', 'simulator');
select is((select status from budget.reserve(:'k', 'unpriced', 1, 1, 'unpriced')), 'granted', 'no price: none is needed');
select is((select status from budget.reserve(:'k', 't-mini', 0, 9223372036854775807)), 'granted', 'any cap: it is cut at what the model can');
select is((select sum(held) from budget_test.counters()), 0::numeric);

-- What is not known when it is over is charged its worst case: here a full context window, 128,000 x 1 + 200 x 4.
select is((select charged_nano_usd from budget.settle((select reservation_id from budget_internal.reservations where request_id = 'blind'), null, 'unknown')),
  128800000::bigint);
select is(
  (select charged_nano_usd from budget.settle((budget.reserve(:'k', 't-mini', 100, 200)).reservation_id, null, 'unknown')),
  900000::bigint, 'and 900 micro-dollars where the input was bounded'
);
select is(
  (select charged_nano_usd || array_to_string(flags, ' ') from budget.settle((budget.reserve(:'k', 't-mini', 100, 200)).reservation_id, '{"output": 200}', 'estimated')),
  '800000estimated unheld', 'an estimate stays within the worst case'
);
select is((select overrun from budget.settle((budget.reserve(:'k', 't-mini', 1, 1)).reservation_id, '{"output": 100}')), false, 'nothing was held, so nothing is over');

-- A strict budget, a ceiling or a token limit needs to know the input.
select budget.set_rate_limit('o', 'key', 'k', null, 1000000);
select is((select code from budget.reserve(:'k', 't-mini', null, 200)), 'invalid_request');
select budget.set_rate_limit('o', 'key', 'k', null, null);
select budget.set_key('o', 'k', '{"request_ceiling_usd": 1}');
select is((select code from budget.reserve(:'k', 't-mini', null, 200)), 'invalid_request');
select budget.set_key('o', 'k', '{"request_ceiling_usd": null}');
select is((select status from budget.reserve(:'k', 't-mini', null, 200)), 'granted');
select budget.set_budget('o', 'project', 'p', 1, 'day');
select is((select code from budget.reserve(:'k', 't-mini', null, 200)), 'invalid_request');
select is((select code from budget.reserve(:'k', 'unpriced', 1, 1)), 'model_unpriced');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
