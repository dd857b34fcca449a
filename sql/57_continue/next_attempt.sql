-- budget.next_attempt: a call's attempt on one route has failed; charge what it may have cost and hold for the next route, in one
-- transaction. p_route: the position of the next route in the plan that reserve gave, from 2 on.
-- p_outcome: released (nothing can have been spent; the default without usage), estimated (usage is a bound of what was
-- seen; the default with usage), finished (usage is what the provider said), unknown (the whole hold).
-- When the rest of the plan no longer fits, the reservation ends with that charge and the refusal is returned.
-- locks:   the periods of the reservation, in one statement; then its row.
-- errors:  LB101 bad input, LB105 isolation.
-- repeats: the same route again returns the same grant; nothing is charged twice.
create or replace function budget.next_attempt(
  p_reservation_id uuid, p_usage jsonb, p_route integer, p_outcome text default null
) returns budget.reserve_result
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_usage constant jsonb := nullif(nullif(p_usage, 'null'), '{}');
  v_outcome constant text := coalesce(p_outcome, case when v_usage is null then 'released' else 'estimated' end);
  v_now timestamptz;
  v_reservation budget_internal.reservations;
  v_slots budget_internal.slot[];
  v_rooms budget_internal.rooms;
  v_places integer[];
  v_place integer;
  v_amount bigint;
  v_hold bigint := 0;
  v_refusal record;
  v_result budget.reserve_result;
begin
  perform budget_internal.require_read_committed();
  if v_outcome not in ('released', 'estimated', 'finished', 'unknown') then
    perform budget_internal.fail('LB101', format('outcome must be released, estimated, finished or unknown, not %s', to_json(left(v_outcome, 40))), '');
  end if;
  if v_outcome = 'released' and v_usage is not null then
    perform budget_internal.fail('LB101', 'outcome released has no usage: what was used is not free', '');
  end if;
  perform budget_internal.take_locks(budget_internal.settle_lock_keys(array[p_reservation_id]));
  select r.* into v_reservation
  from budget_internal.reservations r
  where r.reservation_id = p_reservation_id
  for update;
  v_now := budget_internal.clock();
  if v_reservation.reservation_id is null or v_reservation.stale_at < v_now
     or v_reservation.reconciliation_quarantined_at is not null then
    return budget_internal.not_open(1, p_reservation_id);
  end if;
  if p_route is null or p_route not between 2 and cardinality(v_reservation.route_ids) or p_route < v_reservation.attempt then
    perform budget_internal.fail('LB101', format(
      'route must be a position in the plan after attempt %s, at most %s, not %s', v_reservation.attempt,
      cardinality(v_reservation.route_ids), coalesce(p_route::text, 'null')
    ), '');
  end if;

  v_result.item := 1;
  v_result.status := 'granted';
  v_result.reservation_id := p_reservation_id;
  v_result.granted_output_tokens := v_reservation.output_tokens;
  v_result.cap_output_tokens := v_reservation.cap_output_tokens;
  v_result.rung := v_reservation.rung;
  v_result.routes := budget_internal.plan_after(v_reservation.route_ids, p_route);
  v_result.reserved_nano_usd := v_reservation.reserved_nano_usd;
  if p_route = v_reservation.attempt then
    return v_result;
  end if;

  v_amount := budget_internal.leg_cost(v_reservation, v_usage, v_outcome);
  v_slots := budget_internal.held_slots(array[p_reservation_id]);
  v_rooms := budget_internal.read_rooms(v_slots, v_now);
  v_places := budget_internal.slots_in_rooms(v_reservation.held_period_ids, v_rooms);
  if cardinality(v_places) > 0 then
    v_hold := budget_internal.plan_cost(
      v_reservation.price_ids[p_route:], v_reservation.variant, v_reservation.input_tokens,
      v_reservation.output_tokens::numeric * v_reservation.choices, v_reservation.features, v_reservation.reserved_at
    );
    foreach v_place in array v_places loop
      v_rooms.held[v_place] := v_rooms.held[v_place] - v_reservation.reserved_nano_usd;
      v_rooms.spent[v_place] := v_rooms.spent[v_place] + v_amount;
      -- What was admitted goes on: neither a step cap nor a closed period stands in its way.
      v_rooms.max_grants[v_place] := null;
      v_rooms.closed[v_place] := false;
    end loop;
    v_refusal := budget_internal.refusing_slot(
      v_hold, false, v_places, v_rooms.enforcements, v_rooms.limits, v_rooms.spent, v_rooms.held, v_rooms.max_grants,
      v_rooms.grants, v_rooms.closed
    );
    if v_refusal.code is not null then
      perform budget_internal.close_reservations(jsonb_build_array(jsonb_build_object(
        'reservation_id', p_reservation_id, 'outcome', v_outcome, 'usage', v_usage,
        'note', jsonb_build_object('reason', 'no room for the next attempt')
      )));
      v_result.status := 'denied';
      v_result.routes := null;
      v_result.reserved_nano_usd := null;
      v_result.granted_output_tokens := null;
      v_result.worst_case_nano_usd := v_hold;
      v_result.code := v_refusal.code;
      return budget_internal.describe_budget_refusal(v_result, v_slots[v_refusal.slot], v_rooms, v_refusal.slot, v_now);
    end if;
  end if;

  perform budget_internal.book_leg(v_reservation, v_amount, v_hold, v_usage, v_outcome, v_now);
  update budget_internal.reservations r
  set attempt = p_route, reserved_nano_usd = v_hold, stale_at = greatest(r.stale_at, v_now + make_interval(secs => r.stale_seconds))
  where r.reservation_id = p_reservation_id;
  v_result.reserved_nano_usd := v_hold;
  return v_result;
end
$$;
comment on function budget.next_attempt(uuid, jsonb, integer, text) is
  'Charge a failed attempt and hold for the next route of the plan (its position, from 2). Returns granted with the rest of '
  'the plan, or denied; a reservation without room ends. LB101 bad input.';
revoke all on function budget.next_attempt(uuid, jsonb, integer, text) from public;
grant execute on function budget.next_attempt(uuid, jsonb, integer, text) to budget_gateway, budget_admin;
