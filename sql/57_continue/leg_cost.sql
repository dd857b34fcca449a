-- budget_internal.leg_cost: what a failed attempt of a call is charged, by the rules of judge_closures: nothing when nothing can
-- have been spent, its priced usage when that is known or bounded, else the whole hold.
create or replace function budget_internal.leg_cost(p_reservation budget_internal.reservations, p_usage jsonb, p_outcome text)
returns bigint
language plpgsql stable
as $$
declare
  v_hold numeric := p_reservation.reserved_nano_usd;
  v_cost numeric;
begin
  if p_outcome = 'released' then
    return 0;
  end if;
  if cardinality(p_reservation.held_period_ids) = 0 then
    v_hold := least(1000000000000000, coalesce(budget_internal.plan_cost(
      p_reservation.price_ids[p_reservation.attempt:p_reservation.attempt], p_reservation.variant, p_reservation.input_tokens,
      p_reservation.output_tokens::numeric * p_reservation.choices, p_reservation.features, p_reservation.reserved_at
    ), 0));
  end if;
  if p_outcome in ('finished', 'estimated') and p_usage is not null and budget_internal.usage_defect(p_usage) is null then
    v_cost := budget_internal.price_usage(
      p_reservation.price_ids[p_reservation.attempt], p_reservation.variant, p_usage, p_reservation.reserved_at
    );
  end if;
  return case
    when v_cost is null or v_cost > 1000000000000000 then v_hold
    when p_outcome = 'estimated' then least(v_cost, v_hold)
    else v_cost
  end::bigint;
end
$$;
revoke all on function budget_internal.leg_cost(budget_internal.reservations, jsonb, text) from public;
comment on function budget_internal.leg_cost(budget_internal.reservations, jsonb, text) is 'Charge of a failed attempt, in nano-USD.';
