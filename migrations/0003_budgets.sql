-- Budgets and their periods: the limits, and the running counters they are held against.

create type budget.period_kind as enum ('1d', '7d', '30d', 'day', 'week', 'month', 'quarter', 'year', 'total');
create type budget.enforcement as enum ('strict', 'check', 'soft');

create table budget_internal.budgets (
  org_id bigint not null,
  budget_id bigint generated always as identity,
  scope_id bigint not null,
  name text not null,
  limit_nano_usd budget.nano_usd,
  enforcement budget.enforcement not null default 'strict',
  -- What decides where periods begin and end never changes in a row: a change makes a new budget, so a period row
  -- is known by (budget_id, starts_at).
  period budget.period_kind not null,
  anchor_at timestamptz not null,
  time_zone text not null,
  created_at timestamptz not null default clock_timestamp(),
  changed_at timestamptz not null default clock_timestamp(),
  deleted_at timestamptz,
  primary key (budget_id, org_id),
  foreign key (scope_id, org_id) references budget_internal.scopes (scope_id, org_id),
  constraint budgets_limit_not_negative check (limit_nano_usd >= 0),
  constraint budgets_name_is_printable check (length(name) between 1 and 200 and name !~ '[\x01-\x1f\x7f]')
);

comment on column budget_internal.budgets.limit_nano_usd is 'Null: no limit, spend is only counted. 0: nothing that costs money is granted.';

create unique index budgets_name_is_unique on budget_internal.budgets (scope_id, name) where deleted_at is null;

create table budget_internal.periods (
  org_id bigint not null,
  period_id bigint generated always as identity,
  budget_id bigint not null,
  starts_at timestamptz not null,
  ends_at timestamptz not null,
  spent_nano_usd budget.nano_usd not null default 0,
  held_nano_usd budget.nano_usd not null default 0,
  primary key (period_id, org_id),
  unique (budget_id, starts_at),
  foreign key (budget_id, org_id) references budget_internal.budgets (budget_id, org_id),
  constraint periods_order check (starts_at < ends_at),
  constraint periods_held_not_negative check (held_nano_usd >= 0),
  constraint periods_spent_not_negative check (spent_nano_usd >= 0)
) with (
  -- The hottest rows there are: room on the page keeps updates HOT, eager vacuum keeps chains short.
  fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0.01
);
