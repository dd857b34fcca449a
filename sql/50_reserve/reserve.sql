-- budget.reserve: hold the worst case of one request; a batch of one.
-- p_key: the secret, or sha256:<hex>. p_max_output_tokens: null = the configured default, else min(model's maximum, 8192).
-- options: n, inputs (how many; each may fill the context window), features, uses (of features with a fee), input_bounds, run,
--          service_tier, grow, body_hash, holder.
create or replace function budget.reserve(
  p_key text, p_model text, p_input_tokens bigint, p_max_output_tokens bigint default null, p_request_id text default null,
  p_options jsonb default '{}'
) returns budget.reserve_result
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
  select r from budget.reserve_batch(jsonb_build_array(jsonb_build_object(
    'key', p_key, 'model', p_model, 'input_tokens', p_input_tokens, 'max_output_tokens', p_max_output_tokens,
    'request_id', p_request_id, 'options', p_options
  ))) r
$$;
comment on function budget.reserve(text, text, bigint, bigint, text, jsonb) is
  'Hold the worst case of one request, input bound and output cap in tokens. Returns granted, granted_again or denied with a code.';
revoke all on function budget.reserve(text, text, bigint, bigint, text, jsonb) from public;
grant execute on function budget.reserve(text, text, bigint, bigint, text, jsonb) to budget_gateway, budget_admin;
