-- The second half of a call: prices with an end, windows and aliases, legs and growing holds, alerts, retention, drift.

-- Prices: a version has an end, and two that are reviewed never overlap.
create extension if not exists btree_gist;

alter table budget_internal.prices disable trigger user;
alter table budget_internal.prices
add column effective_to timestamptz,
-- What a second source says where it differs, and other remarks for the reviewer.
add column detail jsonb,
add constraint prices_order check (effective_from < effective_to);
update budget_internal.prices p
set effective_to = n.effective_from
from (
  select
    q.price_id,
    lead(q.effective_from) over (partition by q.provider, q.model order by q.effective_from) as effective_from
  from budget_internal.prices q
  where q.reviewed_at is not null
) n
where n.price_id = p.price_id and n.effective_from is not null;
alter table budget_internal.prices
add constraint prices_do_not_overlap exclude using gist (
  provider with =, model with =, tstzrange(effective_from, effective_to) with &&
) where (reviewed_at is not null);
alter table budget_internal.prices enable trigger user;
comment on column budget_internal.prices.effective_to is
'When the next reviewed version takes over, or the model is withdrawn; null: not yet known.';

-- Times of day, in UTC, at which a version has other rates. Window 0 is the rest of the day.
create table budget_internal.price_windows (
  price_id bigint not null references budget_internal.prices (price_id),
  window_no smallint not null,
  from_minute smallint not null,
  to_minute smallint not null,
  weekdays smallint[] not null default '{1,2,3,4,5,6,7}',
  primary key (price_id, window_no),
  constraint price_windows_number check (window_no between 1 and 20),
  -- Past midnight is two windows.
  constraint price_windows_minutes check (from_minute >= 0 and from_minute < to_minute and to_minute <= 1440),
  constraint price_windows_weekdays check (weekdays <@ '{1,2,3,4,5,6,7}' and cardinality(weekdays) > 0)
);
comment on column budget_internal.price_windows.weekdays is 'ISO days of the week, Monday is 1.';

alter table budget_internal.price_rates
add column window_no smallint not null default 0,
drop constraint price_rates_pkey,
add primary key (price_id, variant, kind, above_input_tokens, window_no);

-- Other names of a provider's model: exact, or a pattern with *; only reviewed ones count.
create table budget_internal.model_aliases (
  provider text not null,
  alias text not null,
  model text not null,
  reviewed_by text,
  reviewed_at timestamptz,
  primary key (provider, alias),
  foreign key (provider, model) references budget_internal.models (provider, model),
  constraint model_aliases_review_is_whole check ((reviewed_by is null) = (reviewed_at is null))
);

-- Provider accounts whose stated cost is taken for the charge.
create table budget_internal.account_settings (
  account_id bigint not null,
  org_id bigint not null default 0,
  trusts_stated_cost boolean not null default false,
  primary key (account_id, org_id),
  foreign key (account_id, org_id) references budget_internal.scopes (scope_id, org_id)
);

-- Legs of a call, and holds that grow.
alter type budget.entry_kind add value 'leg' before 'settled';
comment on type budget.entry_kind is
'leg: a failed attempt of a call that goes on. settled, released, charged (the whole hold, provisional): how it ended. '
'trued_up: the correction of a provisional charge.';
alter table budget_internal.ledger_entries add column attempt smallint not null default 1;
alter table budget_internal.reservations add column cap_output_tokens bigint;
comment on column budget_internal.reservations.cap_output_tokens is
'Up to where a growing hold may be extended, in tokens for each choice; null: the hold does not grow.';
alter table budget_internal.keys
add column first_output_tokens bigint,
add constraint keys_first_output_positive check (first_output_tokens > 0);
comment on column budget_internal.keys.first_output_tokens is
'Hold only so much output at first, and let the hold grow with the stream; null: hold the whole cap.';

-- Thresholds, crossings, alerts.
alter table budget_internal.budgets
add column thresholds smallint[] not null default '{80,100}',
add constraint budgets_thresholds_in_range check (
  1 <= all(thresholds) and 1000 >= all(thresholds) and cardinality(thresholds) <= 20
);
comment on column budget_internal.budgets.thresholds is 'Percent of the limit that settled spend is reported at, once a period and arming.';
alter table budget_internal.periods
add column arming integer not null default 0,
add column retired_nano_usd budget.nano_usd not null default 0;
comment on column budget_internal.periods.arming is 'Counts how often its thresholds were armed again: by a limit raised above spend.';
comment on column budget_internal.periods.retired_nano_usd is 'Spend whose ledger rows retention has dropped.';
alter table budget_internal.unit_months add column retired_nano_usd budget.nano_usd not null default 0;

create table budget_internal.crossings (
  org_id bigint not null,
  crossing_id bigint generated always as identity,
  period_id bigint not null,
  threshold smallint not null,
  arming integer not null,
  crossed_at timestamptz not null,
  spent_nano_usd budget.nano_usd not null,
  limit_nano_usd budget.nano_usd not null,
  primary key (crossing_id, org_id),
  foreign key (period_id, org_id) references budget_internal.periods (period_id, org_id),
  -- Once per threshold, period and arming.
  unique (period_id, threshold, arming)
);

-- What is to be told to people: written in the transaction that caused it, delivered by a worker, never on the request path.
create table budget_internal.alerts (
  org_id bigint not null,
  alert_id bigint generated always as identity,
  kind text not null,
  -- The same cause is told once.
  cause text not null,
  payload jsonb not null,
  created_at timestamptz not null,
  primary key (alert_id, org_id),
  unique (kind, cause)
);

create table budget_internal.deliveries (
  org_id bigint not null,
  alert_id bigint not null,
  destination text not null,
  state text not null default 'pending',
  attempts integer not null default 0,
  next_attempt_at timestamptz not null,
  claimed_by text,
  delivered_at timestamptz,
  last_error text,
  primary key (alert_id, destination, org_id),
  foreign key (alert_id, org_id) references budget_internal.alerts (alert_id, org_id),
  constraint deliveries_state check (state in ('pending', 'delivered', 'dead')),
  constraint deliveries_delivered check ((state = 'delivered') = (delivered_at is not null))
);
create index deliveries_due on budget_internal.deliveries (next_attempt_at) where state = 'pending';

-- Upkeep.
alter table budget_internal.policies
add column ledger_retention_days integer,
add column refusal_retention_days integer,
add column alert_max_attempts integer,
add column drift_tolerance_percent integer,
add constraint policies_retention_positive check (ledger_retention_days between 1 and 36500),
add constraint policies_refusal_retention_positive check (refusal_retention_days between 1 and 36500),
add constraint policies_alert_attempts_positive check (alert_max_attempts between 1 and 1000),
add constraint policies_drift_tolerance check (drift_tolerance_percent between 0 and 1000);
update budget_internal.policies
set refusal_retention_days = 30, alert_max_attempts = 10, drift_tolerance_percent = 2
where scope_id = 0;
comment on column budget_internal.policies.ledger_retention_days is
'Ledger partitions whose rows are all older are dropped; null: kept. A setting of the installation only.';

-- Who runs the schedule: pg_cron, or the proxies. One row.
create table budget_internal.schedule (
  only_row boolean primary key default true,
  runner text not null,
  changed_at timestamptz not null default clock_timestamp(),
  last_run_at timestamptz,
  constraint schedule_is_one_row check (only_row),
  constraint schedule_runner check (runner in ('proxy', 'cron'))
);
insert into budget_internal.schedule (runner) values ('proxy');

-- What providers say that a day cost.
create table budget_internal.provider_costs (
  org_id bigint not null default 0,
  account_id bigint not null,
  day_on date not null,
  model text not null default '',
  cost_nano_usd budget.nano_usd not null,
  source text not null,
  imported_at timestamptz not null,
  primary key (account_id, day_on, model, org_id),
  foreign key (account_id, org_id) references budget_internal.scopes (scope_id, org_id),
  constraint provider_costs_not_negative check (cost_nano_usd >= 0)
);

-- Signatures and row types that grow.
alter type budget_internal.closure add attribute variant text;
drop function if exists budget_internal.price_usage(bigint, text, jsonb);
drop function if exists budget_internal.worst_case(bigint, text, bigint, numeric, text[]);
drop function if exists budget_internal.worst_case_usage(bigint, text, bigint, numeric, text[]);
drop function if exists budget.add_price(text, text, jsonb, timestamptz, text);
