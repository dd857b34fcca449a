-- budget.drift: each day (UTC) that a provider has stated the cost of against the ledger of its account. A call belongs to the day
-- it was admitted, and so do the corrections of it. A cost without a model is the whole day's, and stands for those with one.
-- Of days before the first partition that the ledger still has, nothing is compared.
create or replace view budget.drift as
with stated as (
  select
    c.account_id,
    c.day_on,
    coalesce(sum(c.cost_nano_usd) filter (where c.model = ''), sum(c.cost_nano_usd)) as provider
  from budget_internal.provider_costs c
  group by c.account_id, c.day_on
),

spent as (
  select
    r.account_id,
    (l.reserved_at at time zone 'UTC')::date as day_on,
    sum(l.amount_nano_usd) as ledger
  from budget_internal.ledger_entries l
  join budget_internal.routes r on r.route_id = l.route_id
  where l.booked_at >= (select min(s.day_on)::timestamp at time zone 'UTC' from stated s)
  group by r.account_id, (l.reserved_at at time zone 'UTC')::date
),

compared as (
  select
    d.account_id,
    d.day_on,
    d.provider,
    case when d.day_on >= (
      select min(to_date(right(c.relname, 7), 'YYYY_MM'))
      from pg_catalog.pg_inherits i
      join pg_catalog.pg_class c on c.oid = i.inhrelid
      where i.inhparent = 'budget_internal.ledger_entries'::regclass and c.relname ~ '^ledger_entries_\d{4}_\d\d$'
    ) then coalesce(s.ledger, 0) end as ledger
  from stated d
  left join spent s on s.account_id = d.account_id and s.day_on = d.day_on
)

select
  a.name as account,
  c.day_on as day,
  budget.usd(c.ledger) as ledger_usd,
  budget.usd(c.provider) as provider_usd,
  budget.usd(c.provider - c.ledger) as difference_usd,
  case when c.provider > 0 then round((c.provider - c.ledger) * 100 / c.provider, 2) end as difference_percent,
  abs(c.provider - c.ledger) * 100 > c.provider * y.drift_tolerance_percent as over_tolerance
from compared c
join budget_internal.scopes a on a.scope_id = c.account_id
join budget_internal.policies y on y.scope_id = 0;
comment on view budget.drift is
  'What providers say a day (UTC) cost against the ledger of that account, in USD. difference: the provider''s less ours; '
  'difference_percent is of the provider''s.';
grant select on budget.drift to budget_reader, budget_admin;
