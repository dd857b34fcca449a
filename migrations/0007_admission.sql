-- What a whole organisation needs to admit a call: units, members, tags and runs in the tree, rate limits, ladders,
-- budgets narrowed, raised and carried over, refusals counted, every change audited.

-- Scopes. A run's name belongs to its key: two keys may use the same one.
drop index budget_internal.scopes_name_is_unique;
create unique index scopes_name_is_unique on budget_internal.scopes (org_id, kind, name)
where deleted_at is null and kind <> 'run';
create unique index scopes_run_name_is_unique on budget_internal.scopes (parent_id, name)
where deleted_at is null and kind = 'run';

alter table budget_internal.keys
add column input_bound text not null default 'bytes',
add column allow_unpriced boolean not null default false,
add column run_ceiling_nano_usd budget.nano_usd,
add column run_max_steps bigint,
add constraint keys_input_bound check (input_bound in ('bytes', 'tokenizer', 'chars3', 'bytes4')),
add constraint keys_run_ceiling_not_negative check (run_ceiling_nano_usd >= 0),
add constraint keys_run_steps_positive check (run_max_steps > 0);
comment on column budget_internal.keys.allow_unpriced is
'A call whose cost cannot be known in advance holds nothing, and is granted while every strict budget has room left.';
comment on column budget_internal.keys.run_ceiling_nano_usd is 'The most a run of this key may cost; also what a run gets that names no ceiling.';

create index keys_project on budget_internal.keys (project_id);
create index keys_unit on budget_internal.keys (unit_id) where unit_id is not null;
create index keys_member on budget_internal.keys (member_id) where member_id is not null;
create index key_secrets_key on budget_internal.key_secrets (key_id);
create index key_tags_tag on budget_internal.key_tags (tag_id);

alter table budget_internal.policies
add column on_unknown_cost text,
add constraint policies_on_unknown_cost check (on_unknown_cost in ('refuse', 'check'));
comment on column budget_internal.policies.on_unknown_cost is
'What a strict budget does with a call whose worst case cannot be worked out: refuse it, or decide on spent alone and hold nothing.';
update budget_internal.policies set on_unknown_cost = 'refuse'
where scope_id = 0;

-- Budgets.
alter table budget_internal.budgets
add column models text[],
add column raise_nano_usd budget.nano_usd,
add column raise_until timestamptz,
add column carry_over_cap_nano_usd budget.nano_usd,
add column allocation text not null default 'each_within',
add column fiscal_month smallint not null default 1,
add column fiscal_day smallint not null default 1,
add column max_grants bigint,
add constraint budgets_models_not_empty check (cardinality(models) > 0),
add constraint budgets_raise_is_whole check ((raise_nano_usd is null) = (raise_until is null)),
add constraint budgets_raise_not_negative check (raise_nano_usd >= 0),
add constraint budgets_carry_over_not_negative check (carry_over_cap_nano_usd >= 0),
add constraint budgets_allocation check (allocation in ('each_within', 'sum_within')),
add constraint budgets_fiscal_month check (fiscal_month between 1 and 12),
add constraint budgets_fiscal_day check (fiscal_day between 1 and 31),
add constraint budgets_max_grants_positive check (max_grants > 0);
comment on column budget_internal.budgets.models is
'Upstream models the budget is for, by the name they are priced under; null: all.';
comment on column budget_internal.budgets.max_grants is 'The most calls a period may admit: the step cap of a run; null: any number.';

-- Periods carry the lock that stands for them: a run's is known by key and name before its budget exists.
alter table budget_internal.periods
add column lock_key bigint,
add column carried_nano_usd budget.nano_usd not null default 0,
add column forgiven_nano_usd budget.nano_usd not null default 0,
add column reset_at timestamptz,
add column grants bigint not null default 0,
add column open_holds bigint not null default 0,
add column open_since_ms bigint not null default 0,
add column hold_ms bigint not null default 0,
add constraint periods_carried_not_negative check (carried_nano_usd >= 0),
add constraint periods_forgiven_not_negative check (forgiven_nano_usd >= 0),
add constraint periods_open_holds_not_negative check (open_holds >= 0);
comment on column budget_internal.periods.carried_nano_usd is 'Room left over from the period before, on top of the limit.';
comment on column budget_internal.periods.forgiven_nano_usd is
'What was spent before the last reset: it stays in spent_nano_usd and in the ledger, and no longer counts against the limit.';
comment on column budget_internal.periods.open_since_ms is
'Sum of the start times of the open holds, in milliseconds since 1970: with open_holds it gives their mean age.';
comment on column budget_internal.periods.hold_ms is 'How long a hold lasts, in milliseconds: a moving mean over those that ended; 0: none has.';

update budget_internal.periods p
set lock_key = hashint8extended(
  p.budget_id, case when isfinite(p.starts_at) then extract(epoch from p.starts_at)::bigint else 0 end
);
alter table budget_internal.periods alter column lock_key set not null;

update budget_internal.periods p
set open_holds = h.holds, open_since_ms = h.since_ms
from (
  select
    i.period_id,
    count(*) as holds,
    sum((extract(epoch from r.reserved_at) * 1000)::bigint) as since_ms
  from budget_internal.reservations r
  cross join lateral unnest(r.held_period_ids) i (period_id)
  group by i.period_id
) h
where h.period_id = p.period_id;

-- Rate limits of keys and projects, and their current minute: one row each, taken over by the next minute.
create table budget_internal.rate_limits (
  org_id bigint not null,
  scope_id bigint not null,
  requests_per_minute bigint,
  tokens_per_minute bigint,
  primary key (scope_id, org_id),
  foreign key (scope_id, org_id) references budget_internal.scopes (scope_id, org_id),
  constraint rate_limits_requests_in_range check (requests_per_minute between 1 and 10000000),
  constraint rate_limits_tokens_in_range check (tokens_per_minute between 1 and 10000000)
);

create table budget_internal.rate_windows (
  org_id bigint not null,
  scope_id bigint not null,
  minute_at timestamptz not null,
  requests bigint not null default 0,
  tokens bigint not null default 0,
  primary key (scope_id, org_id),
  foreign key (scope_id, org_id) references budget_internal.scopes (scope_id, org_id),
  constraint rate_windows_requests_not_negative check (requests >= 0),
  constraint rate_windows_tokens_not_negative check (tokens >= 0)
) with (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0.01);

-- Ladders: what to try, in order, when a call does not fit as it was asked for.
create table budget_internal.rungs (
  org_id bigint not null,
  scope_id bigint not null,
  place integer not null,
  name text not null,
  action text not null default 'grant',
  model text,
  max_output_tokens bigint,
  features_off text[] not null default '{}',
  wait_seconds integer,
  primary key (scope_id, place, org_id),
  foreign key (scope_id, org_id) references budget_internal.scopes (scope_id, org_id),
  constraint rungs_action check (action in ('grant', 'wait', 'refuse')),
  constraint rungs_output_positive check (max_output_tokens > 0),
  constraint rungs_wait check ((action = 'wait') = (wait_seconds is not null) and wait_seconds between 1 and 3600),
  constraint rungs_change_something check (
    (action = 'grant') = (model is not null or max_output_tokens is not null or cardinality(features_off) > 0)
  ),
  unique (scope_id, name)
);

-- Runs: a scope of kind run, with one budget for its whole life.
create table budget_internal.runs (
  org_id bigint not null,
  run_id bigint not null,
  key_id bigint not null,
  budget_id bigint not null,
  parent_run_id bigint,
  -- What the parent run's budget holds for this one now; shrinks as this one spends.
  carved_nano_usd budget.nano_usd not null default 0,
  started_at timestamptz not null,
  ended_at timestamptz,
  primary key (run_id, org_id),
  foreign key (run_id, org_id) references budget_internal.scopes (scope_id, org_id),
  foreign key (key_id, org_id) references budget_internal.keys (key_id, org_id),
  foreign key (budget_id, org_id) references budget_internal.budgets (budget_id, org_id),
  foreign key (parent_run_id, org_id) references budget_internal.runs (run_id, org_id),
  constraint runs_carved_not_negative check (carved_nano_usd >= 0)
);
create index runs_parent on budget_internal.runs (parent_run_id) where parent_run_id is not null;
create index runs_budget on budget_internal.runs (budget_id);

-- Reservations and ledger.
alter table budget_internal.reservations
add column features text[] not null default '{}',
add column rung text,
add column rung_changes jsonb,
add column rate_scope_ids bigint[] not null default '{}',
add column rate_minute_at timestamptz,
add column rate_tokens bigint not null default 0;
comment on column budget_internal.reservations.rate_tokens is
'What the call counts as in the token windows of rate_scope_ids, in the minute rate_minute_at, until its usage is known.';

-- The minute is kept for a late report, which corrects it if it is still the current one.
alter table budget_internal.ledger_entries
add column rung text,
add column rate_scope_ids bigint[],
add column rate_minute_at timestamptz,
add column rate_tokens bigint;

-- Spend of every unit of the chain by calendar month (UTC) of the hold, whether or not the unit has a budget.
create table budget_internal.unit_months (
  org_id bigint not null,
  unit_id bigint not null,
  month_on date not null,
  spent_nano_usd budget.nano_usd not null default 0,
  primary key (unit_id, month_on, org_id),
  foreign key (unit_id, org_id) references budget_internal.scopes (scope_id, org_id),
  constraint unit_months_spent_not_negative check (spent_nano_usd >= 0)
) with (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0.01);

-- Refusals, counted: a runaway loop must not fill the disk.
create table budget_internal.refusal_minutes (
  org_id bigint not null,
  scope_id bigint not null,
  minute_at timestamptz not null,
  code text not null,
  refusals bigint not null,
  primary key (minute_at, scope_id, code, org_id),
  constraint refusal_minutes_positive check (refusals > 0)
);

-- Every change of configuration: who, when, what it was, what it is.
create table budget_internal.audit_entries (
  org_id bigint not null,
  audit_id bigint generated always as identity,
  changed_at timestamptz not null,
  actor text not null,
  client text,
  subject text not null,
  action text not null,
  before jsonb,
  after jsonb,
  primary key (audit_id, org_id),
  constraint audit_action check (action in ('insert', 'update', 'delete'))
);
create index audit_entries_time on budget_internal.audit_entries (org_id, changed_at);

-- Signatures and row types that grow. Views are made again with all of sql/, on the functions as they are then.
drop view if exists budget.budget_status;
drop view if exists budget.reservation_status;
drop view if exists budget.quarantine;
drop view if exists budget.ledger;
drop function if exists budget.create_org(text);
drop function if exists budget.create_project(text, text);
drop function if exists budget.set_policy(text, jsonb);
drop function if exists budget_internal.policy(bigint);
drop function if exists budget_internal.period_lock_keys(uuid[]);
drop function if exists budget_internal.current_slots(bigint[], timestamptz);
drop function if exists budget_internal.period_bounds(budget.period_kind, timestamptz, text, timestamptz);
drop function if exists budget_internal.refusing_slot(bigint, integer[], bigint[], bigint[], bigint[]);
drop function if exists budget_internal.describe_refusal(
  budget.reserve_result, budget_internal.slot, bigint, bigint, bigint, timestamptz
);

-- rung_changes: {"model", "max_output_tokens", "features_off"} of the rung that was granted, or {"wait_seconds"}.
alter type budget.reserve_result add attribute rung_changes jsonb;
-- Up to where a growing hold may be extended, in tokens for each choice; null: granted_output_tokens is the cap.
alter type budget.reserve_result add attribute cap_output_tokens bigint;

-- The steps inside reserve and settle.
drop function if exists budget_internal.prepare_admissions(jsonb, timestamptz);
drop function if exists budget_internal.earlier_grants(budget_internal.admission[], timestamptz);
drop function if exists budget_internal.repeat_grant(budget.reserve_result, budget_internal.admission, jsonb);
drop type budget_internal.admission;
drop type budget_internal.slot;

-- One way to grant one request: as it was asked for (rung_place 0), or as a rung of its ladder has it. Read, resolved
-- and priced, not yet decided.
create type budget_internal.admission as (
  item integer,
  rung_place integer,
  rung text,
  action text,
  rung_changes jsonb,
  code text,
  message text,
  org_id bigint,
  key_id bigint,
  scope_ids bigint[],
  model text,
  input_tokens bigint,
  output_tokens bigint,
  choices integer,
  features text[],
  request_id text,
  body_hash text,
  holder text,
  cost_nano_usd bigint,     -- null: unknown, holds nothing
  variant text,
  cap_output_tokens bigint, -- up to where the hold may grow; null: it is held in full
  fits_around boolean,      -- holds nothing, but needs room beside the holds of others
  ceiling_nano_usd bigint,
  route_ids bigint[],
  price_ids bigint[],
  routes jsonb,
  stale_seconds integer,
  idempotency_days integer,
  budget_ids bigint[],      -- in chain order
  rate_scope_ids bigint[],
  run_name text,
  run_id bigint,            -- null with a name: made by the grant
  run_limit_nano_usd bigint,
  run_max_grants bigint,
  slots integer[],          -- positions in the call's list of periods, in chain order
  reservation_id uuid
);

-- One period that a call reads and changes. budget_id null: of a run that the first grant makes.
create type budget_internal.slot as (
  lock_key bigint,
  org_id bigint,
  budget_id bigint,
  starts_at timestamptz,
  ends_at timestamptz,
  strict boolean,           -- locked and held; the others are only read
  key_id bigint,
  run_name text,
  run_limit_nano_usd bigint,
  run_max_grants bigint
);

create type budget.run_result as (
  status text,
  code text,
  message text,
  run text,
  parent_run text,
  ceiling_nano_usd bigint,
  spent_nano_usd bigint,
  held_nano_usd bigint,
  available_nano_usd bigint,
  steps bigint,
  max_steps bigint,
  started_at timestamptz,
  ended_at timestamptz
);

-- By slot: the counters of the periods as a call sees them, changed grant by grant, and what it takes of them.
create type budget_internal.rooms as (
  period_ids bigint[],
  enforcements text[],
  limits bigint[],          -- with what is raised and carried over; null: none
  spent bigint[],
  held bigint[],
  max_grants bigint[],
  grants bigint[],
  closed boolean[],         -- nothing more is admitted: its room was carried over, or its run has ended
  taken bigint[],
  taken_holds bigint[],
  taken_grants bigint[]
);

-- By rate limit: the current minute as a call sees it, and what it takes of it.
create type budget_internal.rates as (
  scope_ids bigint[],
  minutes timestamptz[],
  rpm bigint[],
  tpm bigint[],
  requests bigint[],
  tokens bigint[],
  taken_requests bigint[],
  taken_tokens bigint[]
);

-- What a call gets: granted (code null) with an output allowance and its cost, or refused by a slot, a rate or a ceiling.
create type budget_internal.decision as (
  code text,
  slot integer,
  rate integer,
  output_tokens bigint,
  cost_nano_usd bigint
);
