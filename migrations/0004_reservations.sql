-- Reservations: the open holds. Small by design; what ends moves to the ledger in the same transaction.

create table budget_internal.reservations (
  org_id bigint not null,
  reservation_id uuid not null,
  key_id bigint not null,
  scope_ids bigint[] not null,
  -- Periods that carry the hold (strict budgets), and periods that only count the spend when it is known.
  held_period_ids bigint[] not null,
  counted_period_ids bigint[] not null default '{}',
  reserved_nano_usd budget.nano_usd not null,
  model text not null,
  route_ids bigint[] not null,
  price_ids bigint[] not null,
  variant text not null default 'standard',
  attempt smallint not null default 1,
  input_tokens bigint not null,
  output_tokens bigint not null,
  choices integer not null,
  request_id text,
  body_hash text,
  holder text,
  reserved_at timestamptz not null,
  stale_seconds integer not null,
  stale_at timestamptz not null,
  reconciliation_attempts integer not null default 0,
  reconciliation_error_type text,
  reconcile_after timestamptz,
  reconciliation_quarantined_at timestamptz,
  -- A settlement that could not be booked because the row is malformed: kept, and booked once it is repaired.
  reported jsonb,
  primary key (reservation_id, org_id)
) with (fillfactor = 80, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.02);

comment on column budget_internal.reservations.input_tokens is 'The bound that was priced, in tokens, after clamping to the context window.';
comment on column budget_internal.reservations.output_tokens is 'The output cap that was priced, in tokens for each choice.';
comment on column budget_internal.reservations.holder is 'Who asked: tells a caller''s own re-send from another call with the same request id.';

create unique index reservations_request on budget_internal.reservations (key_id, request_id) where request_id is not null;
create index reservations_due on budget_internal.reservations ((coalesce(reconcile_after, stale_at)))
where reconciliation_quarantined_at is null;
