-- budget_internal.plan_rates: the worst rates of a request over every price that its route plan may lead to; null when one of
-- them has none. A call that asks for another service tier than standard may still be served, and billed, as standard.
create or replace function budget_internal.plan_rates(
  p_price_ids bigint[], p_variant text, p_features text[], p_at timestamptz
) returns budget_internal.worst_rate[]
language plpgsql stable
as $$
begin
  return budget_internal.worst_rates(
    p_price_ids, case when p_variant = 'standard' then array['standard'] else array['standard', p_variant] end, p_features, p_at
  );
end
$$;
revoke all on function budget_internal.plan_rates(bigint[], text, text[], timestamptz) from public;
comment on function budget_internal.plan_rates(bigint[], text, text[], timestamptz) is 'Worst rates over a plan; null when unpriced.';
