-- budget_internal.explain_output: the largest output cap with which a request would fit now, at most the one it has; null when
-- even one token does not. A larger cap never costs less, so halving finds it.
create or replace function budget_internal.explain_output(
  p_way budget_internal.admission, p_rooms budget_internal.rooms, p_rates budget_internal.rates, p_now timestamptz
) returns bigint
language plpgsql stable
as $$
declare
  v_way budget_internal.admission := p_way;
  v_fits bigint := 0;
  v_fails bigint := p_way.output_tokens + 1;
begin
  if p_way.code is not null then
    return null;
  end if;
  -- One token first: most that do not fit at all are known at once.
  v_way.output_tokens := 1;
  while v_fails - v_fits > 1 loop
    if p_way.cost_nano_usd is not null then
      v_way.cost_nano_usd := budget_internal.plan_cost(
        p_way.price_ids, p_way.variant, p_way.input_tokens, v_way.output_tokens::numeric * p_way.choices, p_way.features, p_now
      );
    end if;
    if (budget_internal.decide(v_way, p_rooms, p_rates)).code is null then
      v_fits := v_way.output_tokens;
    elsif v_way.output_tokens = 1 then
      return null;
    else
      v_fails := v_way.output_tokens;
    end if;
    v_way.output_tokens := v_fits + (v_fails - v_fits) / 2;
  end loop;
  return nullif(v_fits, 0);
end
$$;
revoke all on function budget_internal.explain_output(
  budget_internal.admission, budget_internal.rooms, budget_internal.rates, timestamptz
) from public;
comment on function budget_internal.explain_output(
  budget_internal.admission, budget_internal.rooms, budget_internal.rates, timestamptz
) is 'Largest output cap that fits, in tokens; null when none does.';
