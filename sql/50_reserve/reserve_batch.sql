-- budget.reserve_batch: hold the worst case of each request against every budget and limit that applies, in one transaction.
-- requests: [{"key", "model", "input_tokens", "max_output_tokens", "request_id", "options"}, ...], decided in this order.
-- locks:    strict periods of all chains, rate windows, new runs and request ids, sorted, in one statement; then rows.
-- errors:   LB101 not an array, LB105 isolation, LB901 broken invariant. What is wrong with one request is its own
--           status and code and never fails its neighbours.
-- repeats:  same key, request id and body give the first grant again without a second hold; a refusal is decided afresh.
-- A batch of refusals writes nothing. Plans: by index alone, since each lookup finds a row or two; such plans start sooner.
create or replace function budget.reserve_batch(p_requests jsonb) returns setof budget.reserve_result
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_material = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := budget_internal.clock();
  v_admissions budget_internal.admission[];
  v_slots budget_internal.slot[];
  v_rate_scope_ids bigint[];
  v_read budget_internal.rooms;
  v_rooms budget_internal.rooms;
  v_rates budget_internal.rates;
  v_earlier jsonb;
  v_repeats boolean;
  v_granted budget_internal.admission[] := array[]::budget_internal.admission[];
  v_answers budget.reserve_result[] := array[]::budget.reserve_result[];
  v_request budget_internal.admission;
  v_decision budget_internal.decision;
  v_result budget.reserve_result;
  v_undecided boolean := false;
  v_earlier_key text;
begin
  perform budget_internal.require_read_committed();
  if jsonb_typeof(p_requests) is distinct from 'array' then
    perform budget_internal.fail('LB101', 'requests must be a JSON array', '');
  end if;

  v_admissions := array(select a from budget_internal.prepare_admissions(p_requests, v_now) a order by a.item, a.rung_place);
  v_slots := budget_internal.slots_of(v_admissions, v_now);
  v_admissions := budget_internal.place_admissions(v_admissions, v_slots, v_now);
  v_rate_scope_ids := array(
    select distinct r from unnest(v_admissions) a, unnest(a.rate_scope_ids) r where a.code is null order by r
  );
  perform budget_internal.take_locks(
    array(select s.lock_key from unnest(v_slots) s where s.strict)
    || array(select s.carry_lock_key from unnest(v_slots) s where s.carry_lock_key is not null)
    || array(select budget_internal.rate_lock_key(r) from unnest(v_rate_scope_ids) r)
    || array(
      select budget_internal.request_lock_key(a.key_id, a.request_id)
      from unnest(v_admissions) a
      where a.key_id is not null and a.request_id is not null
    )
  );

  -- From here on this transaction alone decides on these periods, windows, runs and request ids.
  if exists (select 1 from unnest(v_slots) s where s.budget_id is null) then
    v_slots := budget_internal.made_runs(v_slots);
    v_admissions := budget_internal.join_made_runs(v_admissions, v_slots);
  end if;
  v_now := budget_internal.clock();
  v_read := budget_internal.read_rooms(v_slots, v_now);
  v_rates := budget_internal.read_rates(v_rate_scope_ids, v_now);
  v_earlier := budget_internal.earlier_grants(v_admissions, v_now);
  v_rooms := v_read;
  v_repeats := exists (
    select 1 from unnest(v_admissions) a where a.rung_place = 0 and a.request_id is not null
    group by a.key_id, a.request_id having count(*) > 1
  );

  if v_earlier = '{}' and not v_repeats and budget_internal.fits_whole(v_admissions, v_rooms, v_rates) then
    v_granted := array(select a from unnest(v_admissions) a where a.rung_place = 0);
    v_admissions := '{}';
  end if;
  -- Order decides: each request sees the holds of those before it. The ways of one request stand together, in the order in
  -- which they are tried; the refusal that is answered is that of the request as it was asked.
  foreach v_request in array v_admissions loop
    if v_request.rung_place = 0 then
      if v_undecided then
        v_answers := v_answers || v_result;
      end if;
      v_undecided := true;
      v_result := null;
      v_result.item := v_request.item;
      v_result.status := 'denied';
      v_result.code := v_request.code;
      v_result.message := v_request.message;
      v_result.worst_case_nano_usd := v_request.cost_nano_usd;
      v_earlier_key := v_request.key_id || ' ' || v_request.request_id;
      if v_earlier ? v_earlier_key and (v_request.code is null or v_request.code in (
        'model_not_allowed', 'model_not_found', 'model_unpriced', 'output_limit_required'
      )) then
        v_answers := v_answers || budget_internal.repeat_grant(v_result, v_request, v_earlier -> v_earlier_key);
        v_undecided := false;
      end if;
    elsif v_undecided and v_result.code not in (
      'tokens_limit_exceeded', 'request_over_limit', 'budget_exceeded', 'budget_busy'
    ) then
      -- A ladder is for what does not fit; what is wrong in other ways is wrong on every rung.
      continue;
    end if;
    if not v_undecided or v_request.code is not null then
      continue;
    end if;

    if v_request.action <> 'grant' then
      -- A rung that waits is for what others hold now; one that refuses ends the ladder.
      if v_request.action = 'refuse' or v_result.code = 'budget_busy' then
        v_result.rung := v_request.rung;
        v_result.rung_changes := v_request.rung_changes;
        v_answers := v_answers || v_result;
        v_undecided := false;
      end if;
      continue;
    end if;
    if v_request.run_name is not null then
      v_rooms := budget_internal.offer_run(v_rooms, v_slots, v_request);
    end if;
    v_decision := budget_internal.decide(v_request, v_rooms, v_rates);
    if v_decision.code is not null then
      if v_request.rung_place = 0 then
        if v_decision.slot is not null then
          v_slots[v_decision.slot] := budget_internal.named_slot(v_slots[v_decision.slot]);
        end if;
        v_result := budget_internal.describe_refusal(v_result, v_request, v_decision, v_slots, v_rooms, v_rates, v_now);
      end if;
      continue;
    end if;

    if v_decision.output_tokens < v_request.output_tokens then
      -- What a token limit leaves is all there is: such a hold does not grow.
      v_request.cap_output_tokens := null;
    end if;
    v_request.output_tokens := v_decision.output_tokens;
    v_request.cost_nano_usd := v_decision.cost_nano_usd;
    v_rooms := budget_internal.take_room(v_rooms, v_request);
    v_rates := budget_internal.take_rate(v_rates, v_request);
    v_granted := v_granted || v_request;
    v_undecided := false;
    if v_repeats and v_request.request_id is not null then
      v_earlier := v_earlier || (
        select jsonb_build_object(v_earlier_key, jsonb_build_object(
          'reservation_id', v_request.reservation_id, 'body_hash', v_request.body_hash, 'holder', v_request.holder,
          'reserved', g.reserved_nano_usd, 'output_tokens', v_request.output_tokens, 'routes', v_request.routes,
          'rung', v_request.rung, 'rung_changes', v_request.rung_changes,
          'cap_output_tokens', v_request.cap_output_tokens, 'state', 'open'
        ))
        from budget_internal.describe_grants(array[v_request], v_rooms) g
      );
    end if;
  end loop;
  if v_undecided then
    v_answers := v_answers || v_result;
  end if;

  if cardinality(v_granted) > 0 then
    -- The limits as they were decided on; what is held, as it was read: the grants are added up anew.
    v_rooms.held := v_read.held;
    perform budget_internal.book_grants(v_granted, v_slots, v_rooms, v_rates, v_now);
  end if;
  return query
  select r.*
  from (
    select a.* from unnest(v_answers) a union all select g.* from budget_internal.describe_grants(v_granted, v_rooms) g
  ) r
  order by r.item;
end
$$;
comment on function budget.reserve_batch(jsonb) is
  'Hold the worst case of each request of a JSON array; one result a request, in order. A request that does not fit is '
  'denied with a code and takes nothing. Amounts in nano-USD.';
revoke all on function budget.reserve_batch(jsonb) from public;
grant execute on function budget.reserve_batch(jsonb) to budget_gateway, budget_admin;
