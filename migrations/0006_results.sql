-- Row types of the API and of the steps inside it. Their columns are the contract that callers read by name.

create type budget.reserve_result as (
  item integer,
  status text,
  code text,
  message text,
  reservation_id uuid,
  reserved_nano_usd bigint,
  granted_output_tokens bigint,
  rung text,
  routes jsonb,
  scope_kind text,
  scope_name text,
  budget_name text,
  limit_nano_usd bigint,
  spent_nano_usd bigint,
  held_nano_usd bigint,
  available_nano_usd bigint,
  resets_at timestamptz,
  worst_case_nano_usd bigint,
  retry_after_seconds integer,
  state text
);

create type budget.settle_result as (
  item integer,
  status text,
  code text,
  message text,
  reservation_id uuid,
  charged_nano_usd bigint,
  reserved_nano_usd bigint,
  overrun boolean,
  source text,
  flags text[]
);

create type budget.reconcile_result as (charged integer, failed integer, quarantined integer, more boolean);

-- One request on its way through reserve: read, resolved and priced, not yet decided.
create type budget_internal.admission as (
  item integer,
  code text,
  message text,
  org_id bigint,
  key_id bigint,
  scope_ids bigint[],
  model text,
  input_tokens bigint,
  output_tokens bigint,
  choices integer,
  request_id text,
  body_hash text,
  holder text,
  cost_nano_usd bigint,
  ceiling_nano_usd bigint,
  route_ids bigint[],
  price_ids bigint[],
  routes jsonb,
  stale_seconds integer,
  idempotency_days integer,
  budget_ids bigint[],      -- in chain order
  slots integer[],          -- positions in the call's list of periods, in chain order
  reservation_id uuid
);

-- One period that a call reads and changes.
create type budget_internal.slot as (
  lock_key bigint,
  org_id bigint,
  budget_id bigint,
  starts_at timestamptz,
  ends_at timestamptz
);

-- One reservation on its way through settle: read under lock and priced, not yet booked.
create type budget_internal.closure as (
  item integer,
  reservation_id uuid,
  org_id bigint,
  kind budget.entry_kind,
  amount_nano_usd bigint,
  source text,
  outcome text,
  usage jsonb,
  provider_cost_usd numeric,
  flags text[],
  note jsonb,
  defect text
);
