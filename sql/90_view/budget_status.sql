-- budget.budget_status: every budget and its current period, whether or not a request has opened it. Locks nothing.
-- Quick for one scope (org, scope_kind, scope_name) and for one org: the conditions go down to the indexes of scopes.
create or replace view budget.budget_status as
with counted as (
  select
    b.*,
    t.now_at,
    t.starts_at,
    t.ends_at,
    coalesce(p.spent_nano_usd - p.forgiven_nano_usd, 0) as spent_nano_usd,
    coalesce(p.held_nano_usd, 0) as held_nano_usd,
    case when b.raise_until > t.now_at then b.raise_nano_usd end as raised_nano_usd,
    case when b.carry_over_cap_nano_usd is not null or p.carried_nano_usd > 0
      then coalesce(p.carried_nano_usd, budget_internal.carried_now(b.budget_id, t.starts_at)) end as carried_nano_usd
  from budget_internal.budgets b
  cross join lateral budget_internal.period_now(b.period, b.anchor_at, b.time_zone, b.fiscal_month, b.fiscal_day) t
  left join budget_internal.periods p on p.budget_id = b.budget_id and p.starts_at = t.starts_at
  where b.deleted_at is null
),

limited as (
  select
    c.*,
    c.limit_nano_usd + coalesce(c.raised_nano_usd, 0) + coalesce(c.carried_nano_usd, 0) as limit_in_force
  from counted c
)

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
  budget.usd(b.limit_in_force) as limit_usd,
  budget.usd(b.spent_nano_usd) as spent_usd,
  budget.usd(b.held_nano_usd) as reserved_usd,
  budget.usd(b.limit_in_force::numeric - b.spent_nano_usd - b.held_nano_usd) as available_usd,
  case when b.limit_in_force > 0
    then round((b.spent_nano_usd::numeric + b.held_nano_usd) / b.limit_in_force, 6) end as utilization,
  case when isfinite(b.starts_at) then b.starts_at end as starts_at,
  case when isfinite(b.ends_at) then b.ends_at end as ends_at,
  b.models,
  budget.usd(b.raised_nano_usd) as raise_usd,
  case when b.raised_nano_usd is not null then b.raise_until end as raise_until,
  budget.usd(b.carried_nano_usd) as carried_usd,
  b.scope_id,
  b.now_at
from limited b
join budget_internal.scopes s on s.scope_id = b.scope_id and s.org_id = b.org_id and s.deleted_at is null
join budget_internal.scopes o on o.scope_id = b.org_id and o.kind = 'org' and o.deleted_at is null;
comment on view budget.budget_status is
  'Budgets with their current period, in USD. limit: with what is raised and carried over now; available = limit - spent - '
  'reserved; utilization = (spent + reserved) / limit; starts_at and ends_at are null for total; models null: all.';
grant select on budget.budget_status to budget_reader, budget_admin;
