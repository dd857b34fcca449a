-- budget.budget_status: every budget and its current period, whether or not a request has opened it. Locks nothing.
-- Quick for one scope (org, scope_kind, scope_name) and for one org: the conditions go down to the indexes of scopes.
create or replace view budget.budget_status as
select
  b.org_id,
  o.name as org,
  s.kind as scope_kind,
  s.name as scope_name,
  b.budget_id,
  b.name as budget_name,
  b.period,
  b.time_zone,
  b.enforcement,
  budget.usd(l.limit_nano_usd) as limit_usd,
  budget.usd(c.spent_nano_usd) as spent_usd,
  budget.usd(c.held_nano_usd) as reserved_usd,
  budget.usd(l.limit_nano_usd::numeric - c.spent_nano_usd - c.held_nano_usd) as available_usd,
  case when l.limit_nano_usd > 0
    then round((c.spent_nano_usd::numeric + c.held_nano_usd) / l.limit_nano_usd, 6) end as utilization,
  case when isfinite(t.starts_at) then t.starts_at end as starts_at,
  case when isfinite(t.ends_at) then t.ends_at end as ends_at,
  b.models,
  budget.usd(c.raise_nano_usd) as raise_usd,
  case when c.raise_nano_usd is not null then b.raise_until end as raise_until,
  budget.usd(c.carried_nano_usd) as carried_usd,
  b.scope_id,
  t.now_at
from budget_internal.budgets b
join budget_internal.scopes s on s.scope_id = b.scope_id and s.org_id = b.org_id
join budget_internal.scopes o on o.scope_id = b.org_id and o.kind = 'org' and o.deleted_at is null
cross join lateral budget_internal.period_now(
  b.period, b.anchor_at, b.time_zone, b.fiscal_month, b.fiscal_day
) t
left join budget_internal.periods p on p.budget_id = b.budget_id and p.starts_at = t.starts_at
cross join lateral (
  select
    coalesce(p.spent_nano_usd - p.forgiven_nano_usd, 0)::bigint as spent_nano_usd,
    coalesce(p.held_nano_usd, 0) as held_nano_usd,
    case when b.raise_until > t.now_at then b.raise_nano_usd end as raise_nano_usd,
    case when b.carry_over_cap_nano_usd is not null or p.carried_nano_usd > 0
      then coalesce(p.carried_nano_usd, budget_internal.carried_now(b.budget_id, t.starts_at)) end as carried_nano_usd
) c
cross join lateral (
  select b.limit_nano_usd + coalesce(c.raise_nano_usd, 0) + coalesce(c.carried_nano_usd, 0) as limit_nano_usd
) l
where b.deleted_at is null and s.deleted_at is null;
comment on view budget.budget_status is
  'Budgets with their current period, in USD. limit: with what is raised and carried over now; available = limit - spent - '
  'reserved; utilization = (spent + reserved) / limit; starts_at and ends_at are null for total; models null: all.';
grant select on budget.budget_status to budget_reader, budget_admin;
