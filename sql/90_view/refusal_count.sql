-- budget.refusal_count: refused requests by minute, scope and code, as proxies reported them. org null: the key was not known.
create or replace view budget.refusal_count as
select
  case when r.org_id <> 0 then o.name end as org,
  case when r.org_id <> 0 then s.kind end as scope_kind,
  case when r.org_id <> 0 then s.name end as scope_name,
  r.minute_at,
  r.code,
  r.refusals
from budget_internal.refusal_minutes r
left join budget_internal.scopes o on o.scope_id = r.org_id
left join budget_internal.scopes s on s.scope_id = r.scope_id;
comment on view budget.refusal_count is 'Refused requests by minute, scope and code; without an org: of unknown keys.';
grant select on budget.refusal_count to budget_reader, budget_admin;
