-- budget.budget_status: every budget and its current period, whether or not a request has opened it. Locks nothing.
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
  budget.usd(coalesce(p.held_nano_usd, 0)) as reserved_usd,
  budget.usd(l.limit_nano_usd - c.spent_nano_usd - coalesce(p.held_nano_usd, 0)) as available_usd,
  case when l.limit_nano_usd > 0
    then round((c.spent_nano_usd::numeric + coalesce(p.held_nano_usd, 0)) / l.limit_nano_usd, 6) end as utilization,
  case when isfinite(t.starts_at) then t.starts_at end as starts_at,
  case when isfinite(t.ends_at) then t.ends_at end as ends_at
from budget_internal.budgets b
join budget_internal.scopes s on s.scope_id = b.scope_id
join budget_internal.scopes o on o.scope_id = b.org_id
cross join (select budget_internal.clock() as now_at) n
cross join lateral budget_internal.period_bounds(
  b.period, b.anchor_at, b.time_zone, b.fiscal_month, b.fiscal_day, n.now_at
) t
left join budget_internal.periods p on p.budget_id = b.budget_id and p.starts_at = t.starts_at
cross join lateral (
  select budget_internal.limit_in_force(
    b.limit_nano_usd, b.raise_nano_usd, b.raise_until, p.carried_nano_usd, n.now_at
  ) as limit_nano_usd
) l
cross join lateral (select coalesce(p.spent_nano_usd - p.forgiven_nano_usd, 0)::bigint as spent_nano_usd) c
where b.deleted_at is null;
comment on view budget.budget_status is
  'Budgets with their current period, in USD. available = limit - spent - reserved; utilization = (spent + reserved) / limit; '
  'starts_at and ends_at are null for total.';
grant select on budget.budget_status to budget_reader, budget_admin;
