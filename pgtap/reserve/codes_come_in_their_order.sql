begin;
select plan(22);
-- A request in which everything is wrong; what is reported first is put right, one after the other.
select budget_test.at('2027-01-15 12:00:00+00');
select budget_test.key(0.001, '{"allowed_models": ["t-pro"], "request_ceiling_usd": 0.002, "run_ceiling_usd": 0.01}') as k \gset
select budget.set_model('simulator', 'unpriced', 1000, 10), budget.set_route(null, 'unpriced', 'simulator', 'simulator');
select budget.set_policy('o', '{"require_output_limit": true}'), budget.set_rate_limit('o', 'key', 'k', 1, 100);
select budget.set_key('o', 'k', '{"allowed_models": ["t-mini"]}');
select budget.reserve(:'k', 't-mini', 0, 0, 'x');
select budget.set_key('o', 'k', '{"allowed_models": ["t-pro"], "expires_at": "2027-01-01T00:00:00Z"}'), budget.disable_key('o', 'k');
update budget_internal.scopes set deleted_at = budget_internal.clock() where kind = 'project';
create function budget_test.ask(p_key text, p_model text, p_input bigint, p_output bigint, p_request_id text default null) returns text language sql as $$
  select coalesce(code, status) from budget.reserve(p_key, p_model, p_input, p_output, p_request_id)
$$;
select is(budget_test.ask('no key', 'gone', -1, null, 'x'), 'invalid_request');
select is(budget_test.ask('no key', 'gone', 200, null, 'x'), 'invalid_key');
select is(budget_test.ask(:'k', 'gone', 200, null, 'x'), 'key_disabled');
select budget.enable_key('o', 'k');
select is(budget_test.ask(:'k', 'gone', 200, null, 'x'), 'key_expired');
select budget.set_key('o', 'k', '{"expires_at": null}');
select is(budget_test.ask(:'k', 'gone', 200, null, 'x'), 'budget_config_invalid');
update budget_internal.scopes set deleted_at = null where kind = 'project';
select is(budget_test.ask(:'k', 'gone', 200, null, 'x'), 'idempotency_conflict');
select is(budget_test.ask(:'k', 'gone', 200, null, 'y'), 'model_not_allowed');
select budget.set_key('o', 'k', '{"allowed_models": null}');
select is(budget_test.ask(:'k', 'gone', 200, null), 'model_not_found');
select is(budget_test.ask(:'k', 'unpriced', 200, null), 'model_unpriced');
select is(budget_test.ask(:'k', 't-mini', 2100, null), 'output_limit_required');
select is(budget_test.ask(:'k', 't-mini', 2100, 1), 'rate_limit_exceeded');
select budget.set_rate_limit('o', 'key', 'k', null, 100);
select is(budget_test.ask(:'k', 't-mini', 2100, 1), 'request_over_limit', 'above all tokens of a minute');
select budget.set_rate_limit('o', 'key', 'k', null, 2101);
select is(budget_test.ask(:'k', 't-mini', 900, 1, 'm'), 'granted');
select is(budget_test.ask(:'k', 't-mini', 2100, 1), 'tokens_limit_exceeded', 'a full minute, before the ceiling');
select budget.settle((select reservation_id from budget_internal.reservations where request_id = 'm'), null, 'unsent');
select budget.set_rate_limit('o', 'key', 'k', null, null);
select results_eq(
  $$select code, scope_kind from budget.reserve($$ || quote_literal(:'k') || $$, 't-mini', 2100, 1)$$,
  $$values ('request_over_limit', null::text)$$, 'the ceiling of the key for one request'
);
-- Budgets: over a whole limit, then spent alone, then the holds of others, wherever they stand in the chain.
select budget.set_budget('o', 'key', 'k', 0.0009, 'day'), budget.set_budget('o', 'org', 'o', 0.0009, 'total', '{"enforcement": "check"}');
select is(budget_test.ask(:'k', 't-mini', 700, 0, 'h'), 'granted');
select budget.settle((budget.reserve(:'k', 't-mini', 100, 0)).reservation_id, '{"input": 900}');
select results_eq(
  $$select code, scope_kind from budget.reserve($$ || quote_literal(:'k') || $$, 't-mini', 901, 0)$$, $$values ('request_over_limit', 'key')$$
);
select is(budget_test.ask(:'k', 't-mini', 100, 0), 'budget_exceeded');
select budget.set_budget('o', 'key', 'k', 0.0016, 'day');
select results_eq(
  $$select code, scope_kind from budget.reserve($$ || quote_literal(:'k') || $$, 't-mini', 100, 0)$$, $$values ('budget_exceeded', 'org')$$,
  'spent out at the org, before the holds in the way at the key'
);
select budget.set_budget('o', 'org', 'o', 0.002, 'total', '{"enforcement": "check"}');
select is(budget_test.ask(:'k', 't-mini', 100, 0), 'budget_busy');
select budget.set_budget('o', 'key', 'k', 0.0017, 'day');
select is(budget_test.ask(:'k', 't-mini', 100, 0), 'granted');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
