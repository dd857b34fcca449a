-- budget_internal.plan_cost: the most a request can cost over every price that its route plan may lead to; null when one of
-- them has none.
create or replace function budget_internal.plan_cost(
  p_price_ids bigint[], p_variant text, p_input_tokens bigint, p_output_tokens numeric, p_features text[], p_at timestamptz
) returns numeric
language plpgsql stable
as $$
begin
  return budget_internal.worst_cost(
    budget_internal.plan_rates(p_price_ids, p_variant, p_features, p_at), p_input_tokens, p_output_tokens
  );
end
$$;
revoke all on function budget_internal.plan_cost(bigint[], text, bigint, numeric, text[], timestamptz) from public;
comment on function budget_internal.plan_cost(bigint[], text, bigint, numeric, text[], timestamptz) is
  'Most a request can cost over its plan at a moment, in nano-USD; null when unpriced.';
