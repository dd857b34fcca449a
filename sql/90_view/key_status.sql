-- budget.key_status: every key with its project and whether it works; never its secret, of which only a hash is kept.
-- last_four: how each of its secrets that still work ends; two while a rotation is in its grace time.
create or replace view budget.key_status as
select
  o.name as org,
  p.name as project,
  n.name as key_name,
  case when k.disabled_at is not null then 'disabled' when k.expires_at <= t.now_at then 'expired' else 'active' end as state,
  s.last_four,
  n.created_at,
  k.expires_at,
  k.disabled_at,
  k.allowed_models
from budget_internal.scopes o
join budget_internal.scopes n on n.org_id = o.org_id and n.kind = 'key' and n.deleted_at is null
join budget_internal.keys k on k.key_id = n.scope_id and k.org_id = n.org_id
join budget_internal.scopes p on p.scope_id = k.project_id and p.org_id = k.org_id
-- For its moment: the clock itself is not a reader's to ask.
cross join lateral budget_internal.period_now('total', 'epoch', 'UTC', 1::smallint, 1::smallint) t
left join lateral (
  select string_agg(c.last_four, ', ' order by c.created_at, c.last_four) as last_four
  from budget_internal.key_secrets c
  where c.key_id = k.key_id and (c.expires_at is null or c.expires_at > t.now_at)
) s on true
where o.kind = 'org' and o.deleted_at is null;
comment on view budget.key_status is
  'Keys with their project. state: active, disabled or expired; last_four: the ends of the secrets that work; allowed_models null: all.';
grant select on budget.key_status to budget_reader, budget_admin;
