begin;
select plan(16);
select budget_test.any_allocation();
select budget_test.at('2026-11-30 12:00:20+00');
select budget_test.key(0.001) as k \gset

-- Over the whole limit: 100 x $5 a million leave $0.0005, which is 16 tokens at $30; t-mini costs $0.0005.
select budget.explain(:'k', 't-pro', 100, 100) -> 'changes' as c \gset
select is(:'c'::jsonb, '{"max_output_tokens": 16, "model": {"model": "t-mini", "worst_case_usd": 0.0005}, "at": null}');
select is((select status from budget.reserve(:'k', 't-pro', 100, 16)), 'granted', 'the cap fits');
select is((select code from budget.reserve(:'k', 't-mini', 100, 100)), 'budget_busy');

-- Busy: $0.00098 is held.
select is(
  (select (e -> 'changes' ->> 'at')::timestamptz from budget.explain(:'k', 't-mini', 100, 100) e),
  (select timestamptz '2026-11-30 12:00:20+00' + make_interval(secs => retry_after_seconds) from budget.reserve(:'k', 't-mini', 100, 100))
);

-- Spent: the latest reset of those that refuse.
select budget.set_budget('o', 'org', 'o', 10, 'day'), budget.set_budget('o', 'project', 'p', 0.01, 'day', '{"name": "second"}');
update budget_internal.budgets set limit_nano_usd = 1000000 where name = 'second';
select budget.settle(reservation_id, '{"input": 100, "output": 16}') from budget_internal.reservations;
select is((select e -> 'changes' ->> 'at' from budget.explain(:'k', 't-mini', 100, 100) e), '2026-12-01T00:00:00+00:00');
select is(
  (select e -> 'changes' from budget.explain(:'k', 't-mini', 10, 100) e),
  '{"max_output_tokens": 2, "model": null, "at": "2026-12-01T00:00:00+00:00"}', '$0.00002 are left: 10 x $1 + 2 x $4 a million'
);
select budget.set_budget('o', 'org', 'o', 0.00099, 'total', '{"name": "total"}');
select is(
  (select e -> 'changes' from budget.explain(:'k', 't-mini', 100, 100) e), '{"max_output_tokens": null, "model": null, "at": "2026-12-01T00:00:00+00:00"}',
  'a total that has not counted what came before refuses nothing'
);
update budget_internal.budgets set limit_nano_usd = 1 where period = 'total';
select is((select e -> 'changes' ->> 'at' from budget.explain(:'k', 't-mini', 100, 100) e), null, 'a total never resets');

-- Rate limits: the next minute.
update budget_internal.budgets set limit_nano_usd = null;
select budget.set_rate_limit('o', 'key', 'k', 1, null);
select is((select status from budget.reserve(:'k', 't-mini', 10, 10)), 'granted');
select is(
  (select e -> 'changes' from budget.explain(:'k', 't-mini', 100, 100) e), '{"max_output_tokens": null, "model": null, "at": "2026-11-30T12:01:00+00:00"}'
);
select budget.set_rate_limit('o', 'key', 'k', null, 50);
select is((select e -> 'changes' ->> 'at' from budget.explain(:'k', 't-mini', 49, 100) e), '2026-11-30T12:01:00+00:00');
select is((select e -> 'changes' ->> 'at' from budget.explain(:'k', 't-mini', 50, 100) e), null, 'never: 50 and one token are more than 50');

-- What no waiting changes.
select budget.set_rate_limit('o', 'key', 'k', null, null);
select is(
  (select (e -> 'changes' ->> 'at', e -> 'changes' -> 'model' ->> 'model')::text from budget.explain(:'k', 'nothing', 100, 100) e),
  '(,t-mini)', 'a model that exists'
);
select is(
  (select e -> 'changes' -> 'model' ->> 'model' from budget.explain(:'k', 'nothing', 100, 0) e), 'e-small',
  'one that writes nothing is named only where nothing is to be written'
);
select budget.set_policy(null, '{"require_output_limit": true}');
select is((select e -> 'changes' ->> 'max_output_tokens' from budget.explain(:'k', 't-mini', 100) e), '16384', 'a cap, up to the model''s maximum');
select budget.disable_key('o', 'k');
select is((select e -> 'changes' from budget.explain(:'k', 't-mini', 100, 100) e), '{"max_output_tokens": null, "model": null, "at": null}');
select * from finish();
rollback;
