-- budget_internal.refusal_codes: every code that a request can be refused with, in the order in which they are checked.
create or replace function budget_internal.refusal_codes() returns text[]
language sql immutable parallel safe
as $$
  select array[
    'invalid_request', 'invalid_key', 'key_disabled', 'key_expired', 'budget_config_invalid', 'idempotency_conflict',
    'model_not_allowed', 'model_not_found', 'model_unpriced', 'output_limit_required', 'rate_limit_exceeded',
    'tokens_limit_exceeded', 'request_over_limit', 'budget_exceeded', 'budget_busy'
  ]
$$;
revoke all on function budget_internal.refusal_codes() from public;
comment on function budget_internal.refusal_codes() is 'Codes of refusals, in the order in which they are checked.';
