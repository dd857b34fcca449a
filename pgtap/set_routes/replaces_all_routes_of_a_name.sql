begin;
select plan(7);
select budget.create_scope(null, 'org', 'o');
prepare plan as
  select o.name as org, r.provider, a.name as account, r.upstream_model, r.priority, r.weight
  from budget_internal.routes r join budget_internal.scopes a on a.scope_id = r.account_id
  join budget_internal.scopes o on o.scope_id = r.org_id where r.model = 'm' order by r.route_id;
select is(cardinality(budget.set_routes(null, 'm', '[
  {"provider": "a", "account": "main", "weight": 3}, {"provider": "a", "account": "spare"}, {"provider": "b", "account": "b", "upstream_model": "mm", "priority": 2}
]')), 3);
select results_eq('plan', $$values ('(installation)', 'a', 'main', 'm', 1, 3), ('(installation)', 'a', 'spare', 'm', 1, 1), ('(installation)', 'b', 'b', 'mm', 2, 1)$$);
select budget.set_route('o', 'm', 'c', 'main') as one \gset
select is((select max(route_id) from budget_internal.routes), :one::bigint, 'the id of the one');
select results_eq('plan', $$values ('(installation)', 'a', 'main', 'm', 1, 3), ('(installation)', 'a', 'spare', 'm', 1, 1), ('(installation)', 'b', 'b', 'mm', 2, 1), ('o', 'c', 'main', 'm', 1, 1)$$, 'an org beside the installation');
select budget.set_route(null, 'm', 'd', 'main', 'up');
select results_eq('plan', $$values ('o', 'c', 'main', 'm', 1, 1), ('(installation)', 'd', 'main', 'up', 1, 1)$$, 'one in place of all');
select is(budget.set_routes('o', 'm', '[]'), '{}'::bigint[]);
select results_eq('plan', $$values ('(installation)', 'd', 'main', 'up', 1, 1)$$, 'an empty array removes');
select * from finish();
rollback;
