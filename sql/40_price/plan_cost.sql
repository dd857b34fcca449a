-- budget_internal.plan_cost: the most a request can cost over every price that its route plan may lead to; null when one of
-- them has none. A call that asks for another service tier than standard may still be served, and billed, as standard.
create or replace function budget_internal.plan_cost(
  p_price_ids bigint[], p_variant text, p_input_tokens bigint, p_output_tokens numeric, p_features text[], p_at timestamptz
) returns numeric
language plpgsql stable
as $$
begin
  return (
    select case when count(*) = count(w.cost) then max(w.cost) end
    from (
      select budget_internal.worst_case(
        p.price_id, v.variant, p_input_tokens, p_output_tokens, p_features, p_at
      ) as cost
      from unnest(p_price_ids) p (price_id)
      cross join unnest(case when p_variant = 'standard' then array['standard'] else array['standard', p_variant] end) v (variant)
      -- Not pulled up: each cost is worked out once.
      offset 0
    ) w
  );
end
$$;
revoke all on function budget_internal.plan_cost(bigint[], text, bigint, numeric, text[], timestamptz) from public;
comment on function budget_internal.plan_cost(bigint[], text, bigint, numeric, text[], timestamptz) is
  'Most a request can cost over its plan at a moment, in nano-USD; null when unpriced.';
