-- budget_internal.worst_case: the most a request can cost under a price version, in nano-USD; null when unpriced.
create or replace function budget_internal.worst_case(
  p_price_id bigint, p_variant text, p_input_tokens bigint, p_output_tokens numeric, p_features text[], p_at timestamptz
) returns numeric
language plpgsql stable
as $$
begin
  return budget_internal.worst_cost(
    budget_internal.worst_rates(array[p_price_id], array[p_variant], p_features, p_at), p_input_tokens, p_output_tokens
  );
end
$$;
revoke all on function budget_internal.worst_case(bigint, text, bigint, numeric, text[], timestamptz) from public;
comment on function budget_internal.worst_case(bigint, text, bigint, numeric, text[], timestamptz) is
  'Most a request can cost at a moment, in nano-USD, for an input bound and an output cap in tokens; null when a unit has no price.';
