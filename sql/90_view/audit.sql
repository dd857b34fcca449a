-- budget.audit: every change of configuration: who, when, through what, what it was and what it is. Amounts in nano-USD.
create or replace view budget.audit as
select
  s.name as org,
  a.changed_at,
  a.actor,
  a.client,
  a.subject,
  a.action,
  a.before,
  a.after,
  a.audit_id
from budget_internal.audit_entries a
left join budget_internal.scopes s on s.scope_id = a.org_id;
comment on view budget.audit is
  'Changes of scopes, keys, budgets, limits, ladders, settings, routes, models and prices; append-only, in the order of changed_at, audit_id.';
grant select on budget.audit to budget_reader, budget_admin;
