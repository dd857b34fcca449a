begin;
select plan(12);
select budget_test.key(0.0027) as k \gset
-- A total is not compared with a day, so the key may have more than its project.
select budget.set_budget('o', 'project', 'p', 0.0018, 'total', '{"enforcement": "check"}'),
  budget.set_budget('o', 'org', 'o', 0.0001, 'day', '{"enforcement": "soft"}');
prepare rooms as
  select s.kind::text, p.spent_nano_usd / 1000, p.held_nano_usd / 1000
  from budget_internal.periods p
  join budget_internal.budgets b on b.budget_id = p.budget_id join budget_internal.scopes s on s.scope_id = b.scope_id
  order by 1;
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as first \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as second \gset
select results_eq('rooms', $$values ('key', 0::bigint, 1800::bigint), ('org', 0, 0), ('project', 0, 0)$$, 'only the strict one holds');
select budget.settle(:'first', '{"input": 100, "output": 200}'), budget.settle(:'second', '{"input": 100, "output": 200}');
select results_eq('rooms', $$values ('key', 1800::bigint, 0::bigint), ('org', 1800, 0), ('project', 1800, 0)$$, 'all count what is spent');
select results_eq(
  $$select code, scope_kind from budget.reserve($$ || quote_literal(:'k') || $$, 't-mini', 100, 200)$$,
  $$values ('budget_exceeded', 'project')$$, 'the key has room for one more, the project has spent its limit'
);
select budget.set_budget('o', 'project', 'p', 0.0019, 'total', '{"enforcement": "check"}');
select is((select status from budget.reserve(:'k', 't-mini', 100, 200)), 'granted', 'the project looks at spent alone: 1,800 of 1,900');
select results_eq(
  $$select code, scope_kind from budget.reserve($$ || quote_literal(:'k') || $$, 't-mini', 100, 200)$$,
  $$values ('budget_busy', 'key')$$, 'the key looks at holds too'
);
select is((select code || ' ' || scope_kind from budget.reserve(:'k', 't-mini', 2800, 0)), 'request_over_limit key',
  'only a strict limit can be too small for one request');

-- The first exhausted in chain order is named, whatever its enforcement.
select budget.set_budget('o', 'key', 'k', 0.0018, 'day', '{"enforcement": "check"}'), budget.set_budget('o', 'project', 'p', 0.0018, 'total', '{"enforcement": "strict"}');
select is((select scope_kind from budget.reserve(:'k', 't-mini', 100, 200)), 'key');
select budget.set_budget('o', 'key', 'k', 0.0028, 'day', '{"enforcement": "check"}');
select is((select code || ' ' || scope_kind from budget.reserve(:'k', 't-mini', 100, 200)), 'budget_exceeded project');

-- A change of enforcement acts on the very next request.
select budget.set_budget('o', 'project', 'p', 0.0018, 'total', '{"enforcement": "soft"}');
select is((select status || ' ' || reserved_nano_usd from budget.reserve(:'k', 't-mini', 100, 200, 'late')), 'granted 0', 'all checked or soft');
select budget.settle((select reservation_id from budget_internal.reservations where request_id = 'late'), null, 'unsent');
select budget.set_budget('o', 'key', 'k', 0.0036, 'day', '{"enforcement": "strict"}');
select is((select code from budget.reserve(:'k', 't-mini', 100, 201)), 'budget_busy', '1,800 spent and 900 held of 3,600 leave 900');
select is((select status from budget.reserve(:'k', 't-mini', 100, 200)), 'granted');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
