-- Prices: what each unit of each model costs, dated, reviewed, never changed.

create table budget_internal.charge_kinds (
  kind text primary key,
  direction text not null,
  fallback_kind text references budget_internal.charge_kinds (kind),
  feature text,
  constraint charge_kinds_direction check (direction in ('input', 'output', 'fee'))
);

comment on table budget_internal.charge_kinds is
  'What a price can be quoted for. fallback_kind: the price that applies when a model has none of its own (a cached '
  'token without a discount is an input token). feature: charged only if the request uses it; null: any request may.';

insert into budget_internal.charge_kinds (kind, direction, fallback_kind, feature) values
('input', 'input', null, null),
('cache_read', 'input', 'input', null),
('cache_write', 'input', null, null),
('cache_write_5m', 'input', null, 'cache_write_5m'),
('cache_write_1h', 'input', null, 'cache_write_1h'),
('audio_in', 'input', null, 'audio_in'),
('image_in', 'input', 'input', 'image_in'),
('output', 'output', null, null),
('reasoning', 'output', 'output', null),
('audio_out', 'output', null, 'audio_out'),
('image_out', 'output', null, 'image_out'),
('web_search', 'fee', null, 'web_search'),
('file_search', 'fee', null, 'file_search'),
('code_execution', 'fee', null, 'code_execution'),
('request', 'fee', null, null),
('request_low', 'fee', null, 'request_low'),
('request_medium', 'fee', null, 'request_medium'),
('request_high', 'fee', null, 'request_high'),
('audio_seconds', 'fee', null, 'audio_seconds'),
('pages', 'fee', null, 'pages');

create table budget_internal.models (
  provider text not null,
  model text not null,
  context_window_tokens bigint,
  max_output_tokens bigint,
  primary key (provider, model),
  constraint models_context_positive check (context_window_tokens > 0),
  constraint models_output_not_negative check (max_output_tokens >= 0)
);

-- One row is one version of a model's whole price list. A version holds from effective_from until the next reviewed
-- version begins, so two can never overlap.
create table budget_internal.prices (
  price_id bigint generated always as identity primary key,
  provider text not null,
  model text not null,
  effective_from timestamptz not null,
  source text,
  reviewed_by text,
  reviewed_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  foreign key (provider, model) references budget_internal.models (provider, model),
  unique (provider, model, effective_from),
  constraint prices_review_is_whole check ((reviewed_by is null) = (reviewed_at is null))
);

create table budget_internal.price_rates (
  price_id bigint not null references budget_internal.prices (price_id),
  variant text not null default 'standard',
  above_input_tokens bigint not null default 0,
  kind text not null references budget_internal.charge_kinds (kind),
  amount_nano budget.nano_usd not null,
  per bigint not null,
  -- nano-USD for 9e9 units: 9e9 is a multiple of every `per`, so sums stay whole numbers until the one rounding.
  scaled numeric not null generated always as (amount_nano::numeric * (9000000000 / per)) stored,
  primary key (price_id, variant, kind, above_input_tokens),
  constraint price_rates_variant check (variant in ('standard', 'priority', 'flex', 'batch', 'fast')),
  constraint price_rates_amount_not_negative check (amount_nano >= 0),
  constraint price_rates_per_is_a_unit check (per in (1, 60, 1000, 3600, 1000000, 1000000000)),
  constraint price_rates_tier_not_negative check (above_input_tokens >= 0)
);

comment on column budget_internal.price_rates.above_input_tokens is
  'The rate holds for the whole request when it has strictly more input tokens than this (a cliff); 0 is the base rate.';

create table budget_internal.routes (
  org_id bigint not null,
  route_id bigint generated always as identity,
  model text not null,
  provider text not null,
  upstream_model text not null,
  account_id bigint not null,
  account_org_id bigint not null default 0,
  priority integer not null default 1,
  weight integer not null default 1,
  primary key (route_id, org_id),
  unique (org_id, model, priority, account_id, upstream_model),
  foreign key (account_id, account_org_id) references budget_internal.scopes (scope_id, org_id),
  constraint routes_account_is_shared check (account_org_id = 0),
  constraint routes_priority_positive check (priority > 0),
  constraint routes_weight_positive check (weight > 0)
);

comment on table budget_internal.routes is
  'Where a model name leads: provider, account, upstream model. An org with routes of its own for a name uses only those; '
  'the others use those of org 0.';
