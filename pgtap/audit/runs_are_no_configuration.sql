begin;
select plan(4);
select budget_test.key(1);
select scope_id as id, org_id as o from budget_internal.scopes where kind = 'key' and name = 'k' \gset
select max(audit_id) as seen from budget_internal.audit_entries \gset
insert into budget_internal.scopes (org_id, kind, name, parent_id) values (:o, 'run', 'r', :id) returning scope_id as r \gset
insert into budget_internal.budgets (org_id, scope_id, name, period, anchor_at, time_zone) values (:o, :r, 'run', 'total', now(), 'UTC');
select is_empty(format('select * from budget.audit where audit_id > %s', :seen));
select budget.delete_scope('o', 'key', 'k');
select isnt((select deleted_at from budget_internal.scopes where scope_id = :r), null, 'a key takes its runs along');
select isnt((select deleted_at from budget_internal.budgets where scope_id = :r), null);
select is_empty(format('select * from budget.audit where audit_id > %s and subject like %L', :seen, '%run%'));
select * from finish();
rollback;
