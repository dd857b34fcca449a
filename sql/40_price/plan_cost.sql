-- budget_internal.plan_cost: the most a request can cost over every price that its route plan may lead to; null when one of
-- them has none. A call that asks for another service tier than standard may still be served, and billed, as standard.
create or replace function budget_internal.plan_cost(
  p_price_ids bigint[], p_variant text, p_input_tokens bigint, p_output_tokens numeric, p_features text[], p_at timestamptz
) returns numeric
language plpgsql stable
as $$
declare
  v_price_id bigint;
  v_variant text;
  v_cost numeric;
  v_most numeric;
begin
  foreach v_price_id in array coalesce(p_price_ids, '{}') loop
    foreach v_variant in array case when p_variant = 'standard' then array['standard'] else array['standard', p_variant] end loop
      v_cost := budget_internal.worst_case(v_price_id, v_variant, p_input_tokens, p_output_tokens, p_features, p_at);
      if v_cost is null then
        return null;
      end if;
      v_most := greatest(v_most, v_cost);
    end loop;
  end loop;
  return v_most;
end
$$;
revoke all on function budget_internal.plan_cost(bigint[], text, bigint, numeric, text[], timestamptz) from public;
comment on function budget_internal.plan_cost(bigint[], text, bigint, numeric, text[], timestamptz) is
  'Most a request can cost over its plan at a moment, in nano-USD; null when unpriced.';
