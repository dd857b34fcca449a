-- budget_internal.largest_step: how far the hold of one call may grow now, up to what is asked and its cap: output tokens and
-- the hold for them; or, when not by one token, the slot that is in the way, with its code and what the step needs.
create or replace function budget_internal.largest_step(
  p_reservation budget_internal.reservations, p_places integer[], p_rooms budget_internal.rooms, p_output_tokens bigint,
  out output_tokens bigint, out hold_nano_usd bigint, out slot integer, out code text, out needed_nano_usd bigint
)
language plpgsql stable
as $$
declare
  v_fits bigint := p_reservation.output_tokens;
  v_too_far bigint;
  v_tokens bigint := least(p_output_tokens, coalesce(p_reservation.cap_output_tokens, p_reservation.output_tokens));
  v_hold bigint;
  v_place integer;
  v_refusal record;
begin
  output_tokens := p_reservation.output_tokens;
  hold_nano_usd := p_reservation.reserved_nano_usd;
  if v_tokens <= output_tokens then
    return;
  end if;
  if cardinality(p_places) = 0 then
    output_tokens := v_tokens;
    return;
  end if;
  -- Its own hold is not in its way.
  foreach v_place in array p_places loop
    p_rooms.held[v_place] := p_rooms.held[v_place] - p_reservation.reserved_nano_usd;
  end loop;
  loop
    v_hold := budget_internal.plan_cost(
      p_reservation.price_ids[p_reservation.attempt:], p_reservation.variant, p_reservation.input_tokens,
      v_tokens::numeric * p_reservation.choices, p_reservation.features, p_reservation.reserved_at
    );
    v_refusal := budget_internal.refusing_slot(
      v_hold, false, p_places, p_rooms.enforcements, p_rooms.limits, p_rooms.spent,
      p_rooms.held, array_fill(null::bigint, array[cardinality(p_rooms.held)]), p_rooms.grants,
      array_fill(false, array[cardinality(p_rooms.held)])
    );
    if v_refusal.code is null then
      v_fits := v_tokens;
      output_tokens := v_tokens;
      hold_nano_usd := v_hold;
      slot := null;
      code := null;
    else
      v_too_far := v_tokens;
      if output_tokens = p_reservation.output_tokens then
        slot := v_refusal.slot;
        code := v_refusal.code;
        needed_nano_usd := v_hold;
      end if;
    end if;
    exit when v_too_far is null or v_too_far - v_fits <= 1;
    v_tokens := v_fits + (v_too_far - v_fits) / 2;
  end loop;
end
$$;
revoke all on function budget_internal.largest_step(
  budget_internal.reservations, integer[], budget_internal.rooms, bigint
) from public;
comment on function budget_internal.largest_step(
  budget_internal.reservations, integer[], budget_internal.rooms, bigint
) is 'How far a hold may grow.';
