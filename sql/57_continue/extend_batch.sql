-- budget.extend_batch: let the holds of growing calls grow to so many output tokens for each choice, all in one transaction.
-- extensions: [{"reservation_id", "output_tokens"}, ...]. Where the whole step does not fit, the hold grows to what does;
-- a call that gets nothing more is denied with the budget in the way, keeps what it holds and should end its stream.
-- locks:   the periods of all of them, in one statement; then their rows.
-- errors:  LB101 not an array, LB105 isolation. What is wrong with one extension is its own status and code.
-- repeats: tokens are counted from the start of the output: the same again changes nothing.
create or replace function budget.extend_batch(p_extensions jsonb) returns setof budget.reserve_result
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_ids uuid[];
  v_now timestamptz;
  v_slots budget_internal.slot[];
  v_rooms budget_internal.rooms;
  v_item bigint;
  v_extension jsonb;
  v_reservation budget_internal.reservations;
  v_places integer[];
  v_place integer;
  v_step record;
  v_result budget.reserve_result;
begin
  perform budget_internal.require_read_committed();
  if jsonb_typeof(p_extensions) is distinct from 'array' then
    perform budget_internal.fail('LB101', 'extensions must be a JSON array', '');
  end if;
  v_ids := array(
    select distinct (e ->> 'reservation_id')::uuid from jsonb_array_elements(p_extensions) e
    where budget_internal.extension_defect(e) is null
  );
  perform budget_internal.take_locks(budget_internal.settle_lock_keys(v_ids));
  perform 1 from budget_internal.reservations r where r.reservation_id = any (v_ids) order by r.reservation_id for update;
  v_now := budget_internal.clock();
  v_slots := budget_internal.held_slots(v_ids);
  v_rooms := budget_internal.read_rooms(v_slots, v_now);

  for v_extension, v_item in select e.value, e.ordinality from jsonb_array_elements(p_extensions) with ordinality e loop
    v_result := null;
    v_result.item := v_item;
    v_result.message := budget_internal.extension_defect(v_extension);
    if v_result.message is not null then
      v_result.status := 'denied';
      v_result.code := 'invalid_request';
      return next v_result;
      continue;
    end if;
    select r.* into v_reservation
    from budget_internal.reservations r
    where r.reservation_id = (v_extension ->> 'reservation_id')::uuid and r.stale_at >= v_now
      and r.reconciliation_quarantined_at is null;
    if v_reservation.reservation_id is null then
      return next budget_internal.not_open(v_item::integer, (v_extension ->> 'reservation_id')::uuid);
      continue;
    end if;

    v_places := budget_internal.slots_in_rooms(v_reservation.held_period_ids, v_rooms);
    v_step := budget_internal.largest_step(v_reservation, v_places, v_rooms, (v_extension ->> 'output_tokens')::numeric::bigint);
    v_result.status := 'granted';
    v_result.reservation_id := v_reservation.reservation_id;
    v_result.granted_output_tokens := v_step.output_tokens;
    v_result.cap_output_tokens := v_reservation.cap_output_tokens;
    v_result.reserved_nano_usd := v_step.hold_nano_usd;
    if v_step.code is not null then
      v_result.status := 'denied';
      v_result.code := v_step.code;
      v_result.worst_case_nano_usd := v_step.needed_nano_usd;
      v_result := budget_internal.describe_budget_refusal(v_result, v_slots[v_step.slot], v_rooms, v_step.slot, v_now);
    elsif v_step.output_tokens > v_reservation.output_tokens then
      foreach v_place in array v_places loop
        v_rooms.held[v_place] := v_rooms.held[v_place] + v_step.hold_nano_usd - v_reservation.reserved_nano_usd;
        v_rooms.taken[v_place] := v_rooms.taken[v_place] + v_step.hold_nano_usd - v_reservation.reserved_nano_usd;
      end loop;
      update budget_internal.reservations r
      set output_tokens = v_step.output_tokens, reserved_nano_usd = v_step.hold_nano_usd
      where r.reservation_id = v_reservation.reservation_id;
    end if;
    return next v_result;
  end loop;
  perform budget_internal.grow_holds(v_rooms);
end
$$;
comment on function budget.extend_batch(jsonb) is
  'Grow the holds of a JSON array of {reservation_id, output_tokens}; one result each, in order, with the tokens that are held '
  'now. LB101 bad input.';
revoke all on function budget.extend_batch(jsonb) from public;
grant execute on function budget.extend_batch(jsonb) to budget_gateway, budget_admin;
