begin;
select plan(8);
select budget_test.at('2026-11-30 12:00:30+00');
select budget_test.key(1) as k \gset
select budget.start_run(:'k', 'r', '{"ceiling_usd": 1}');
select budget.count_refusals(jsonb_build_array(
  jsonb_build_object('key', :'k', 'scope_kind', 'org', 'scope_name', 'o', 'code', 'budget_exceeded', 'count', 2),
  jsonb_build_object('key', 'sha256:' || encode(sha256(:'k'), 'hex'), 'scope_kind', 'org', 'scope_name', 'o', 'code', 'budget_exceeded', 'count', 3),
  jsonb_build_object('key', :'k', 'scope_kind', 'run', 'scope_name', 'r', 'code', 'budget_busy', 'count', 1),
  jsonb_build_object('key', :'k', 'scope_kind', 'account', 'scope_name', 'simulator', 'code', 'budget_busy', 'count', 4),
  jsonb_build_object('key', :'k', 'scope_kind', 'project', 'scope_name', 'gone', 'code', 'budget_busy', 'count', 5),
  jsonb_build_object('key', :'k', 'code', 'model_not_found', 'count', 6),
  jsonb_build_object('key', 'nobody', 'scope_kind', 'org', 'scope_name', 'o', 'code', 'invalid_key', 'count', 7)
));
select results_eq(
  'select org, scope_kind::text, scope_name, minute_at, code, refusals from budget.refusal_count order by refusals',
  $$values
    ('o', 'run', 'r', timestamptz '2026-11-30 12:00:00+00', 'budget_busy', 1::bigint),
    ('o', 'account', 'simulator', '2026-11-30 12:00:00+00', 'budget_busy', 4),
    ('o', 'org', 'o', '2026-11-30 12:00:00+00', 'budget_exceeded', 5),
    ('o', 'key', 'k', '2026-11-30 12:00:00+00', 'budget_busy', 5),
    ('o', 'key', 'k', '2026-11-30 12:00:00+00', 'model_not_found', 6),
    (null, null, null, '2026-11-30 12:00:00+00', 'invalid_key', 7)
  $$
);
select is((select org_id || ' ' || scope_id from budget_internal.refusal_minutes where code = 'invalid_key'), '0 0');

-- A minute that is given is kept for ten minutes; any other is the current one.
truncate budget_internal.refusal_minutes;
select budget.count_refusals(jsonb_build_array(jsonb_build_object('key', null, 'code', 'invalid_key', 'count', 1, 'minute_at', m)))
from unnest(array[
  '2026-11-30T11:50:59Z', '2026-11-30 12:51:00+01', '2026-11-30T11:49:59Z', '2026-11-30T12:01:00Z', '2026-11-30T12:00:59Z', null
]) m;
select results_eq(
  'select minute_at, refusals from budget.refusal_count order by minute_at',
  $$values (timestamptz '2026-11-30 11:50:00+00', 1::bigint), ('2026-11-30 11:51:00+00', 1), ('2026-11-30 12:00:00+00', 4)$$
);
select lives_ok($$select budget.count_refusals('[]')$$);

-- Another org's scope is not found through this key.
select budget.create_scope(null, 'org', 'other');
truncate budget_internal.refusal_minutes;
select budget.count_refusals(jsonb_build_array(
  jsonb_build_object('key', :'k', 'scope_kind', 'org', 'scope_name', 'other', 'code', 'budget_exceeded', 'count', 1)
));
select is((select org || ' ' || scope_kind || ' ' || scope_name from budget.refusal_count), 'o key k');
select is(has_function_privilege('budget_gateway', 'budget.count_refusals(jsonb)', 'execute'), true);
select is(has_function_privilege('budget_reader', 'budget.count_refusals(jsonb)', 'execute'), false);
set local role budget_reader;
select is((select count(*)::int from budget.refusal_count), 1);
reset role;
select * from finish();
rollback;
