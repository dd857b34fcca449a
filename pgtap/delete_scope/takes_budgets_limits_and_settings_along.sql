begin;
select plan(6);
select budget_test.key(1) as k \gset
select budget.set_budget('o', 'project', 'p', 1, 'day'), budget.set_rate_limit('o', 'key', 'k', 10, null),
  budget.set_ladder('o', 'key', 'k', '[{"name": "stop", "refuse": true}]'), budget.set_policy('o', '{"stale_seconds": 1}', 'p');
select budget.delete_scope('o', 'key', 'k');
select results_eq('select scope_name from budget.budget_status', $$values ('p')$$);
select budget.delete_scope('o', 'project', 'p');
select is_empty('select * from budget.budget_status');
select is_empty('select * from budget_internal.rate_limits');
select is_empty('select * from budget_internal.rungs');
select is((select stale_seconds from budget.gateway_settings()), 90);
select budget.create_scope('o', 'project', 'p'), budget.create_key('o', 'p', 'k');
select is_empty('select * from budget.budget_status', 'the next one of that name begins without');
select * from finish();
rollback;
