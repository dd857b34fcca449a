-- Alerts: crossings that are armed again, where alerts go, and when the speed of spending is told.

alter table budget_internal.crossings
add column rearmed_at timestamptz;
comment on column budget_internal.crossings.rearmed_at is
'When the limit was found raised above this threshold, so that it may be crossed again; null: it has been told and stays so.';
create unique index crossings_told_once on budget_internal.crossings (period_id, threshold) where rearmed_at is null;

-- Where the gateways deliver to, as they say when they start. An alert has a delivery for each of these.
create table budget_internal.alert_destinations (
  destination text primary key,
  -- Only what soft budgets have to tell, and what no budget has.
  soft_only boolean not null,
  set_at timestamptz not null,
  constraint alert_destinations_known check (destination in ('slack', 'google_chat', 'webhook', 'smtp'))
);

-- For the outbox as people look at it, and for periods that run.
create index alerts_time on budget_internal.alerts (created_at);
create index deliveries_dead on budget_internal.deliveries (alert_id) where state = 'dead';
create index periods_end on budget_internal.periods (ends_at);

alter table budget_internal.policies
add column burn_rate_percent integer,
add constraint policies_burn_rate check (burn_rate_percent between 1 and 10000);
comment on column budget_internal.policies.burn_rate_percent is
'Alert when a period would end at so many percent above its limit if it went on as it began.';
update budget_internal.policies set burn_rate_percent = 20
where scope_id = 0;

-- The budgets of runs tell nothing: there is one for every run.
alter table budget_internal.budgets disable trigger user;
update budget_internal.budgets b
set thresholds = '{}'
from budget_internal.runs r
where r.budget_id = b.budget_id;
alter table budget_internal.budgets enable trigger user;
