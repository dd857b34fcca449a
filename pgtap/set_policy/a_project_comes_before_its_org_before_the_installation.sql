begin;
select plan(8);
call budget_test.tree();
select secret as k from budget.create_key('o', 'p', 'k') \gset
select budget.set_policy(null, '{"default_max_output_tokens": 30, "on_unknown_cost": "check"}'), budget.set_policy('o', '{"default_max_output_tokens": 20}'),
  budget.set_policy('o', '{"default_max_output_tokens": 10}', 'p');
select is((select granted_output_tokens from budget.reserve(:'k', 't-mini', 1, null)), 10::bigint, 'of the project');
select budget.set_policy('o', '{"default_max_output_tokens": null}', 'p');
select is((select granted_output_tokens from budget.reserve(:'k', 't-mini', 1, null)), 20::bigint, 'of the org');
select budget.set_policy('o', '{"default_max_output_tokens": null}');
select is((select granted_output_tokens from budget.reserve(:'k', 't-mini', 1, null)), 30::bigint, 'of the installation');
select scope_id as p, org_id as o from budget_internal.scopes where kind = 'project' and name = 'p' \gset
select is((budget_internal.policy(:o, :p)).on_unknown_cost, 'check');
select budget.set_policy('o', '{"on_unknown_cost": "refuse", "stale_seconds": 40}');
select is((budget_internal.policy(:o, :p)).on_unknown_cost, 'refuse');
select budget.set_policy('o', '{"on_unknown_cost": "check"}', 'p');
select is((budget_internal.policy(:o, :p)).on_unknown_cost, 'check');
select is((budget_internal.policy(:o, null)).on_unknown_cost, 'refuse', 'without a project: of the org');
select is((budget_internal.policy(:o, :p)).stale_seconds, 40, 'what is not named stays');
select * from finish();
rollback;
