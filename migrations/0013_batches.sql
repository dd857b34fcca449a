-- Batches are priced and decided as sets.

-- Of one price version and variant at one moment, for requests of more than so many input tokens, up to the next tier: what an
-- input token, an output token and all fees cost at most, for 9e9 units (see price_rates.scaled). Null: no price.
create type budget_internal.worst_rate as (
  above_input_tokens bigint,
  up_to_input_tokens bigint, -- null: the last tier
  input_scaled numeric,
  output_scaled numeric,
  fees_scaled numeric
);

drop function if exists budget_internal.worst_case_usage(bigint, text, bigint, numeric, text[], timestamptz);

-- What a batch takes is added up from its grants when it is booked, and not kept beside the counters any more.
drop function if exists budget_internal.carry_lock_keys(budget_internal.slot[]);
alter type budget_internal.rooms drop attribute taken_holds, drop attribute taken_grants;
alter type budget_internal.rates drop attribute taken_requests, drop attribute taken_tokens;
-- Of the period before, whose unused room goes over into one that this call makes; null: none does.
alter type budget_internal.slot add attribute carry_lock_key bigint;
drop function if exists budget_internal.place_admissions(budget_internal.admission[], budget_internal.slot[]);
drop function if exists budget_internal.describe_grant(budget_internal.admission, budget_internal.rooms);
