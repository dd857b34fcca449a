begin;
select plan(13);
select budget_test.any_allocation();
select budget_test.at('2026-11-30 12:00:20+00');
select budget_test.key(0.01, '{"request_ceiling_usd": "0.5"}') as k \gset
select budget.set_budget('o', 'project', 'p', 0.0001, 'month', '{"enforcement": "soft"}'),
  budget.set_budget('o', 'org', 'o', null, 'year', '{"enforcement": "check", "models": ["t-mini"]}'),
  budget.set_budget(null, 'account', 'simulator', 9, 'total');
-- Lowered below what its keys have.
update budget_internal.budgets b set limit_nano_usd = 100000 where b.period = 'year';
select budget.set_rate_limit('o', 'project', 'p', 5, 1000);
select budget.reserve(:'k', 't-mini', 100, 200, null, '{"run": {"id": "r", "ceiling_usd": "0.002", "max_steps": 2}}');
select budget.explain(:'k', 't-mini', 100, 200, '{"run": {"id": "r"}}') as e \gset
select is(
  (select string_agg(concat_ws(' ', b ->> 'scope', b ->> 'name', b ->> 'period', b ->> 'enforcement', b ->> 'limit_usd', b ->> 'available_usd', b ->> 'code'), ', ')
    from jsonb_array_elements(:'e'::jsonb -> 'budgets') b),
  'run r total strict 0.002 0.0011, key k day strict 0.01 0.0091, project p month soft 0.0001 0.0001, org o year check 0.0001 0.0001, '
  'account simulator total strict 9 8.9991'
);
select is(:'e'::jsonb ->> 'verdict', 'granted', 'soft never refuses, check has nothing spent');
select is((:'e'::jsonb #>> '{budgets,0,steps}')::int, 1);
select is((:'e'::jsonb #>> '{budgets,0,max_steps}')::int, 2);
select is(:'e'::jsonb #> '{budgets,3,models}', '["t-mini"]');
select is((:'e'::jsonb ->> 'request_ceiling_usd')::numeric, 0.5);
select is(
  :'e'::jsonb -> 'rate_limits',
  '[{"scope": "project", "name": "p", "requests_per_minute": 5, "requests": 1, "tokens_per_minute": 1000, "tokens": 300,
     "resets_at": "2026-11-30T12:01:00+00:00", "code": null}]'
);
select is(
  (select string_agg(b ->> 'scope', ' ') from budget.explain(:'k', 't-pro', 100, 200) e, jsonb_array_elements(e -> 'budgets') b),
  'key project account', 'a budget for another model does not apply, nor a run that is not named'
);
select is(
  (select (e #>> '{budgets,0,name}', e #>> '{budgets,0,limit_usd}')::text from budget.explain(:'k', 't-mini', 1, 1, '{"run": {"id": "new", "ceiling_usd": 1}}') e),
  '(new,1)', 'a run that the call would make'
);
select is((select count(*)::int from budget.run_status), 1, 'and that explain does not make');
select is(
  (select e ->> 'output_tokens' from budget.explain(:'k', 't-mini', 400, 900) e), '300', 'the token limit leaves 1000 - 300 - 400'
);
-- Several refuse: each says so.
select budget.settle(reservation_id, '{"input": 100, "output": 200}') from budget_internal.reservations;
select is(
  (select (e ->> 'verdict', string_agg(concat_ws(' ', b ->> 'scope', b ->> 'code'), ', '))::text
    from budget.explain(:'k', 't-mini', 100, 500, '{"run": {"id": "r"}}') e, jsonb_array_elements(e -> 'budgets') b group by e),
  '(request_over_limit,"run request_over_limit, key, project, org budget_exceeded, account")'
);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
