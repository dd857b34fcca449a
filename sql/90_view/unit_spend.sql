-- budget.unit_spend: what each unit has spent by calendar month (UTC), with all units beneath it: every month that had spend,
-- and for living units the current month at least as 0. Spend stays where it was made when keys or units move.
create or replace view budget.unit_spend as
select
  o.name as org,
  concat_ws('/', c.name, b.name, a.name, u.name) as unit,
  u.name as unit_name,
  m.month_on as month,
  budget.usd(m.spent_nano_usd) as spent_usd,
  u.scope_id as unit_id
from budget_internal.scopes u
join budget_internal.scopes o on o.scope_id = u.org_id and o.kind = 'org' and o.deleted_at is null
-- Units are at most four deep.
left join budget_internal.scopes a on a.scope_id = u.parent_id and a.kind = 'unit'
left join budget_internal.scopes b on b.scope_id = a.parent_id and b.kind = 'unit'
left join budget_internal.scopes c on c.scope_id = b.parent_id and c.kind = 'unit'
cross join lateral (
  select
    s.month_on,
    s.spent_nano_usd
  from budget_internal.unit_months s
  where s.unit_id = u.scope_id
  union all
  select
    t.month_on,
    0
  from budget_internal.period_now('month', '-infinity', 'UTC', 1::smallint, 1::smallint) n
  cross join lateral (values ((n.starts_at at time zone 'UTC')::date)) t (month_on)
  where u.deleted_at is null and not exists (
    select 1
    from budget_internal.unit_months s
    where s.unit_id = u.scope_id and s.month_on = t.month_on
  )
) m
where u.kind = 'unit';
comment on view budget.unit_spend is 'Spend of units by calendar month (UTC), in USD. unit: the path from the project down.';
grant select on budget.unit_spend to budget_reader, budget_admin;
