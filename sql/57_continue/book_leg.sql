-- budget_internal.book_leg: charge an attempt of a call that goes on, and bring its hold to what the rest of the plan may cost.
-- Called under the period locks and the row lock of the reservation, after the room was checked.
create or replace function budget_internal.book_leg(
  p_reservation budget_internal.reservations, p_amount bigint, p_hold bigint, p_usage jsonb, p_outcome text, p_now timestamptz
) returns void
language plpgsql volatile
as $$
declare
  v_price_id constant bigint := p_reservation.price_ids[p_reservation.attempt];
  v_charged constant bigint[] := budget_internal.charged_period_ids(
    p_reservation.held_period_ids || p_reservation.counted_period_ids, v_price_id
  );
begin
  update budget_internal.periods p
  set
    spent_nano_usd = p.spent_nano_usd + case when p.period_id = any (v_charged) then p_amount else 0 end,
    held_nano_usd = p.held_nano_usd + case
      when p.period_id = any (p_reservation.held_period_ids) then p_hold - p_reservation.reserved_nano_usd else 0
    end
  where p.period_id = any (p_reservation.held_period_ids || p_reservation.counted_period_ids);
  perform budget_internal.shrink_carves(p_reservation.scope_ids[1:1]);
  if p_amount = 0 then
    return;
  end if;
  perform budget_internal.record_crossings(v_charged, array_fill(p_amount, array[cardinality(v_charged)]), p_now);
  perform budget_internal.correct_units(p_reservation.org_id, p_reservation.scope_ids, p_reservation.reserved_at, p_amount);
  insert into budget_internal.ledger_entries (
    org_id, booked_at, kind, reservation_id, key_id, scope_ids, period_ids, amount_nano_usd, reserved_nano_usd, source,
    outcome, usage, overrun, flags, model, route_id, price_id, variant, request_id, body_hash, reserved_at, rung, attempt
  ) values (
    p_reservation.org_id, p_now, 'leg', p_reservation.reservation_id, p_reservation.key_id, p_reservation.scope_ids, v_charged,
    p_amount, p_reservation.reserved_nano_usd,
    case when p_outcome = 'unknown' then 'hold' when p_outcome = 'finished' then 'usage' else 'bound' end,
    p_outcome, p_usage, cardinality(p_reservation.held_period_ids) > 0 and p_amount > p_reservation.reserved_nano_usd,
    case p_outcome when 'estimated' then array['estimated'] when 'unknown' then array['provisional'] else '{}' end,
    p_reservation.model, p_reservation.route_ids[p_reservation.attempt], v_price_id, p_reservation.variant,
    p_reservation.request_id, p_reservation.body_hash, p_reservation.reserved_at, p_reservation.rung, p_reservation.attempt
  );
end
$$;
revoke all on function budget_internal.book_leg(budget_internal.reservations, bigint, bigint, jsonb, text, timestamptz) from public;
comment on function budget_internal.book_leg(budget_internal.reservations, bigint, bigint, jsonb, text, timestamptz) is
  'Charge one attempt of a call that goes on.';
