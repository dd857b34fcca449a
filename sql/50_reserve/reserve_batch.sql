-- budget.reserve_batch: hold the worst case of each request against every budget that applies, in one transaction.
-- requests: [{"key", "model", "input_tokens", "max_output_tokens", "request_id", "options"}, ...], decided in this order.
-- locks:    all periods of all chains and all request ids, sorted, in one statement; then period rows.
-- errors:   LB101 not an array, LB105 isolation, LB901 broken invariant. What is wrong with one request is its own
--           status and code and never fails its neighbours.
-- repeats:  same key, request id and body give the first grant again without a second hold; a refusal is decided afresh.
create or replace function budget.reserve_batch(p_requests jsonb) returns setof budget.reserve_result
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := budget_internal.clock();
  v_admissions budget_internal.admission[];
  v_slots budget_internal.slot[];
  v_missing integer;
  v_period_ids bigint[];
  v_limits bigint[];
  v_spent bigint[];
  v_held bigint[];
  v_taken bigint[];
  v_earlier jsonb;
  v_results budget.reserve_result[] := array[]::budget.reserve_result[];
  v_granted budget_internal.admission[] := array[]::budget_internal.admission[];
  v_request budget_internal.admission;
  v_result budget.reserve_result;
  v_refusal record;
  v_slot integer;
  v_broken bigint;
begin
  perform budget_internal.require_read_committed();
  if jsonb_typeof(p_requests) is distinct from 'array' then
    perform budget_internal.fail('LB101', 'requests must be a JSON array', '');
  end if;

  v_admissions := array(select a from budget_internal.prepare_admissions(p_requests, v_now) a order by a.item);
  v_slots := array(
    select s from budget_internal.current_slots(
      array(select distinct b from unnest(v_admissions) a, unnest(a.budget_ids) b where a.code is null), v_now
    ) s
  );
  v_admissions := array(
    select (
      a.item, a.code, a.message, a.org_id, a.key_id, a.scope_ids, a.model, a.input_tokens, a.output_tokens, a.choices,
      a.request_id, a.body_hash, a.holder, a.cost_nano_usd, a.ceiling_nano_usd, a.route_ids, a.price_ids, a.routes,
      a.stale_seconds, a.idempotency_days, a.budget_ids,
      array(
        select s.slot::integer
        from unnest(a.budget_ids) with ordinality b (budget_id, place)
        join unnest(v_slots) with ordinality s (lock_key, org_id, budget_id, starts_at, ends_at, slot)
          on s.budget_id = b.budget_id
        order by b.place
      ),
      null::uuid
    )::budget_internal.admission
    from unnest(v_admissions) a
    order by a.item
  );

  perform budget_internal.take_locks(
    array(select s.lock_key from unnest(v_slots) s)
    || array(
      select budget_internal.request_lock_key(a.key_id, a.request_id)
      from unnest(v_admissions) a
      where a.key_id is not null and a.request_id is not null
    )
  );

  -- From here on this transaction alone decides on these periods and request ids.
  select count(*) into v_missing
  from unnest(v_slots) s
  where not exists (
    select 1 from budget_internal.periods p where p.budget_id = s.budget_id and p.starts_at = s.starts_at
  );
  if v_missing > 0 then
    insert into budget_internal.periods (org_id, budget_id, starts_at, ends_at)
    select s.org_id, s.budget_id, s.starts_at, s.ends_at
    from unnest(v_slots) s
    order by s.budget_id
    on conflict do nothing;
  end if;

  select
    coalesce(array_agg(p.period_id order by s.slot), '{}'), coalesce(array_agg(p.spent_nano_usd::bigint order by s.slot), '{}'),
    coalesce(array_agg(p.held_nano_usd::bigint order by s.slot), '{}'),
    -- A budget that was deleted or replaced since it was looked up still decides on this call: its successor is not in
    -- the chain, so to let go of it would be to let the call go unbudgeted.
    coalesce(array_agg(b.limit_nano_usd::bigint order by s.slot), '{}')
  into v_period_ids, v_spent, v_held, v_limits
  from unnest(v_slots) with ordinality s (lock_key, org_id, budget_id, starts_at, ends_at, slot)
  join budget_internal.periods p on p.budget_id = s.budget_id and p.starts_at = s.starts_at
  join budget_internal.budgets b on b.budget_id = s.budget_id;
  if cardinality(v_period_ids) <> cardinality(v_slots) then
    perform budget_internal.fail('LB901', 'a period of a budget is missing after it was made', '');
  end if;
  v_taken := array_fill(0::bigint, array[cardinality(v_slots)]);

  v_earlier := budget_internal.earlier_grants(v_admissions, v_now);
  v_now := budget_internal.clock();

  -- Order decides: each request sees the holds of those before it.
  foreach v_request in array v_admissions loop
    v_result := null;
    v_result.item := v_request.item;
    v_result.code := v_request.code;
    v_result.message := v_request.message;
    v_result.status := 'denied';
    v_result.worst_case_nano_usd := v_request.cost_nano_usd;

    if v_request.request_id is not null
       and (v_request.code is null or v_request.code in (
         'model_not_allowed', 'model_not_found', 'model_unpriced', 'output_limit_required', 'request_over_limit'
       ))
       and v_earlier ? (v_request.key_id || ' ' || v_request.request_id) then
      v_results := v_results || budget_internal.repeat_grant(
        v_result, v_request, v_earlier -> (v_request.key_id || ' ' || v_request.request_id)
      );
      continue;
    end if;

    if v_request.code is null then
      v_refusal := budget_internal.refusing_slot(v_request.cost_nano_usd, v_request.slots, v_limits, v_spent, v_held);
      if v_refusal.code is null then
        foreach v_slot in array v_request.slots loop
          v_held[v_slot] := v_held[v_slot] + v_request.cost_nano_usd;
          v_taken[v_slot] := v_taken[v_slot] + v_request.cost_nano_usd;
        end loop;
        v_request.reservation_id := budget_internal.uuid_v7(v_now);
        v_granted := v_granted || v_request;
        v_result.status := 'granted';
        v_result.reservation_id := v_request.reservation_id;
        v_result.reserved_nano_usd := v_request.cost_nano_usd;
        v_result.granted_output_tokens := v_request.output_tokens;
        v_result.routes := v_request.routes;
        if v_request.request_id is not null then
          v_earlier := v_earlier || jsonb_build_object(
            v_request.key_id || ' ' || v_request.request_id,
            jsonb_build_object(
              'reservation_id', v_request.reservation_id, 'body_hash', v_request.body_hash, 'holder', v_request.holder,
              'reserved', v_request.cost_nano_usd, 'output_tokens', v_request.output_tokens, 'routes', v_request.routes,
              'state', 'open'
            )
          );
        end if;
      else
        v_result.code := v_refusal.code;
        v_result := budget_internal.describe_refusal(
          v_result, v_slots[v_refusal.slot], v_limits[v_refusal.slot], v_spent[v_refusal.slot], v_held[v_refusal.slot], v_now
        );
      end if;
    end if;
    v_results := v_results || v_result;
  end loop;

  if cardinality(v_granted) > 0 then
    insert into budget_internal.reservations (
      org_id, reservation_id, key_id, scope_ids, held_period_ids, reserved_nano_usd, model, route_ids, price_ids,
      input_tokens, output_tokens, choices, request_id, body_hash, holder, reserved_at, stale_seconds, stale_at
    )
    select
      g.org_id, g.reservation_id, g.key_id, g.scope_ids, array(select v_period_ids[s] from unnest(g.slots) s),
      g.cost_nano_usd, g.model, g.route_ids, g.price_ids, g.input_tokens, g.output_tokens, g.choices, g.request_id,
      g.body_hash, g.holder, v_now, g.stale_seconds, v_now + make_interval(secs => g.stale_seconds)
    from unnest(v_granted) g;

    with taken as (
      select t.period_id, t.amount
      from unnest(v_period_ids, v_taken) t (period_id, amount)
      where t.amount > 0
    ), held as (
      update budget_internal.periods p
      set held_nano_usd = p.held_nano_usd + t.amount
      from taken t
      where p.period_id = t.period_id
      returning p.budget_id, p.spent_nano_usd::numeric + p.held_nano_usd as used
    )
    -- Pair assertion: what the loop decided on copies must hold on the rows.
    select h.budget_id into v_broken
    from held h
    join budget_internal.budgets b on b.budget_id = h.budget_id
    join unnest(v_slots) with ordinality s (lock_key, org_id, budget_id, starts_at, ends_at, slot) on s.budget_id = h.budget_id
    where h.used > v_limits[s.slot] or h.used <> v_spent[s.slot]::numeric + v_held[s.slot]
    limit 1;
    if v_broken is not null then
      perform budget_internal.fail('LB901', format('budget %s would pass its limit by admission', v_broken), '');
    end if;
  end if;

  return query select r.* from unnest(v_results) r order by r.item;
end
$$;
comment on function budget.reserve_batch(jsonb) is
  'Hold the worst case of each request of a JSON array; one result a request, in order. A request that does not fit is '
  'denied with a code and takes nothing. Amounts in nano-USD.';
revoke all on function budget.reserve_batch(jsonb) from public;
grant execute on function budget.reserve_batch(jsonb) to budget_gateway, budget_admin;
