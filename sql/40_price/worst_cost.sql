-- budget_internal.worst_cost: the most a request can cost by some worst rates, in nano-USD, rounded up once as price_usages
-- does; null when there is no price.
-- Tiers are cliffs and need not rise: an input that ends just at a threshold is looked at as well as the bound itself.
create or replace function budget_internal.worst_cost(
  p_rates budget_internal.worst_rate[], p_input_tokens bigint, p_output_tokens numeric
) returns numeric
language plpgsql immutable
as $$
declare
  v_rate budget_internal.worst_rate;
  v_scaled numeric;
  v_most numeric;
begin
  if p_rates is null then
    return null;
  end if;
  foreach v_rate in array p_rates loop
    continue when v_rate.above_input_tokens > 0 and v_rate.above_input_tokens >= p_input_tokens;
    v_scaled := v_rate.fees_scaled
      + case when p_input_tokens > 0 then least(p_input_tokens, v_rate.up_to_input_tokens) * v_rate.input_scaled else 0 end
      + case when p_output_tokens > 0 then p_output_tokens * v_rate.output_scaled else 0 end;
    -- greatest() passes over null, which must stay: no price.
    if v_scaled is null then
      return null;
    end if;
    v_most := greatest(v_most, v_scaled);
  end loop;
  -- ceil() of a quotient rounds large numerics wrongly; div of whole numbers does not.
  return div(v_most + 8999999999, 9000000000);
end
$$;
revoke all on function budget_internal.worst_cost(budget_internal.worst_rate[], bigint, numeric) from public;
comment on function budget_internal.worst_cost(budget_internal.worst_rate[], bigint, numeric) is
  'Most a request of so many input and output tokens can cost, in nano-USD.';
