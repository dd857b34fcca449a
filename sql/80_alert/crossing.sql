-- budget.crossing: every time that settled spend reached a threshold of a budget.
create or replace view budget.crossing as
select
  c.org_id,
  o.name as org,
  s.kind as scope_kind,
  s.name as scope_name,
  b.name as budget_name,
  p.period_id,
  case when isfinite(p.starts_at) then p.starts_at end as starts_at,
  case when isfinite(p.ends_at) then p.ends_at end as ends_at,
  c.threshold as threshold_percent,
  c.arming,
  c.crossed_at,
  budget.usd(c.spent_nano_usd) as spent_usd,
  budget.usd(c.limit_nano_usd) as limit_usd,
  c.rearmed_at
from budget_internal.crossings c
join budget_internal.periods p on p.period_id = c.period_id
join budget_internal.budgets b on b.budget_id = p.budget_id
join budget_internal.scopes s on s.scope_id = b.scope_id
left join budget_internal.scopes o on o.scope_id = c.org_id and o.scope_id <> 0;
comment on view budget.crossing is
  'Thresholds that were crossed, with what was spent and in force then, in USD. rearmed_at: the limit was raised above it (or the '
  'budget reset), so it may be crossed again, under another arming.';
grant select on budget.crossing to budget_reader, budget_admin;
