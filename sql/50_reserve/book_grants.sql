-- budget_internal.book_grants: write what a batch granted: new periods and runs, reservations, holds, windows.
-- p_rooms: the counters as they were read, before these grants. Called under the locks. errors: LB901 when a row does not agree
-- with what was decided.
create or replace function budget_internal.book_grants(
  p_granted budget_internal.admission[], p_slots budget_internal.slot[], p_rooms budget_internal.rooms,
  p_rates budget_internal.rates, p_now timestamptz
) returns void
language plpgsql volatile
as $$
declare
  v_period_ids bigint[] := p_rooms.period_ids;
  v_strict boolean[] := array(select e = 'strict' from unnest(p_rooms.enforcements) with ordinality r (e, slot) order by r.slot);
  v_run_ids bigint[] := array_fill(null::bigint, array[cardinality(p_slots)]);
  v_missing integer[];
  v_slot integer;
  v_run record;
  v_broken bigint;
begin
  v_missing := array(
    select distinct s from unnest(p_granted) g, unnest(g.slots) s where v_period_ids[s] is null
  );
  if cardinality(v_missing) > 0 then
    perform budget_internal.open_periods(array(select p_slots[s] from unnest(v_missing) s));
  end if;
  foreach v_slot in array v_missing loop
    if p_slots[v_slot].budget_id is not null then
      v_period_ids[v_slot] := (
        select p.period_id from budget_internal.periods p
        where p.budget_id = p_slots[v_slot].budget_id and p.starts_at = p_slots[v_slot].starts_at
      );
    else
      select r.* into v_run
      from budget_internal.open_run(
        p_slots[v_slot].org_id, p_slots[v_slot].key_id, p_slots[v_slot].run_name, p_rooms.limits[v_slot],
        p_rooms.max_grants[v_slot], null, p_now
      ) r;
      v_run_ids[v_slot] := v_run.run_id;
      v_period_ids[v_slot] := v_run.period_id;
    end if;
  end loop;

  insert into budget_internal.reservations (
    org_id, reservation_id, key_id, scope_ids, held_period_ids, counted_period_ids, reserved_nano_usd, model, route_ids,
    price_ids, input_tokens, output_tokens, choices, features, rung, rung_changes, request_id, body_hash, holder, reserved_at,
    variant, cap_output_tokens, stale_seconds, stale_at, rate_scope_ids, rate_minute_at, rate_tokens
  )
  select
    g.org_id, g.reservation_id, g.key_id,
    -- A run that this call makes comes first, as in every chain.
    case when cardinality(v_missing) > 0
      then array(select v_run_ids[s] from unnest(g.slots) s where v_run_ids[s] is not null) || g.scope_ids else g.scope_ids end,
    h.held,
    -- Periods that only count the spend, once it is known.
    array(select v_period_ids[s] from unnest(g.slots) s where v_period_ids[s] <> all (h.held))
      || case when g.run_id is not null then budget_internal.parent_run_periods(g.run_id) else '{}' end,
    case when cardinality(h.held) > 0 then g.cost_nano_usd else 0 end,
    g.model, g.route_ids, g.price_ids, g.input_tokens, g.output_tokens, g.choices, g.features, g.rung, g.rung_changes, g.request_id,
    g.body_hash, g.holder, p_now, g.variant, g.cap_output_tokens, g.stale_seconds, p_now + make_interval(secs => g.stale_seconds), g.rate_scope_ids,
    p_rates.minutes[array_position(p_rates.scope_ids, g.rate_scope_ids[1])],
    case when cardinality(g.rate_scope_ids) > 0 then g.input_tokens + g.output_tokens * g.choices else 0 end
  from unnest(p_granted) g
  cross join lateral (
    select array(
      select v_period_ids[s] from unnest(g.slots) s where v_strict[s] and g.cost_nano_usd is not null
    ) as held
  ) h;

  with taken as (
    select
      v_period_ids[t.slot] as period_id, p_rooms.limits[t.slot] as limit_nano_usd,
      p_rooms.spent[t.slot]::numeric + p_rooms.held[t.slot] + t.amount as decided, t.amount, t.grants, t.holds
    from (
      select s.slot, coalesce(sum(g.cost_nano_usd), 0) as amount, count(*) as grants, count(g.cost_nano_usd) as holds
      from unnest(p_granted) g
      cross join lateral unnest(g.slots) s (slot)
      where v_strict[s.slot]
      group by s.slot
    ) t
  ), changed as (
    update budget_internal.periods p
    set held_nano_usd = p.held_nano_usd + t.amount, grants = p.grants + t.grants, open_holds = p.open_holds + t.holds,
      open_since_ms = p.open_since_ms + t.holds * (extract(epoch from p_now) * 1000)::bigint
    from taken t
    where p.period_id = t.period_id
    returning p.budget_id, t.amount, t.limit_nano_usd, t.decided,
      p.spent_nano_usd::numeric - p.forgiven_nano_usd + p.held_nano_usd as used
  )
  -- Pair assertion. What costs or holds nothing may be admitted over a limit that others have passed.
  select coalesce(
    (select c.budget_id from changed c where c.amount > 0 and c.used > c.limit_nano_usd or c.used <> c.decided limit 1),
    case when (select count(*) from changed) <> (select count(*) from taken) then -1 end
  ) into v_broken;
  if v_broken is not null then
    perform budget_internal.fail('LB901', format('budget %s would pass its limit by admission', v_broken), '');
  end if;

  if cardinality(p_rates.scope_ids) = 0 then
    return;
  end if;
  insert into budget_internal.rate_windows as w (org_id, scope_id, minute_at, requests, tokens)
  select s.org_id, s.scope_id, t.minute_at, t.requests, t.tokens
  from (
    select m.scope_id, m.minute_at, count(*) as requests, sum(g.input_tokens + g.output_tokens * g.choices) as tokens
    from unnest(p_granted) g
    cross join lateral unnest(g.rate_scope_ids) r (scope_id)
    join unnest(p_rates.scope_ids, p_rates.minutes) m (scope_id, minute_at) on m.scope_id = r.scope_id
    group by m.scope_id, m.minute_at
  ) t
  join budget_internal.scopes s on s.scope_id = t.scope_id
  order by t.scope_id
  on conflict (scope_id, org_id) do update
  set minute_at = excluded.minute_at,
    requests = case when w.minute_at = excluded.minute_at then w.requests else 0 end + excluded.requests,
    tokens = case when w.minute_at = excluded.minute_at then w.tokens else 0 end + excluded.tokens;
end
$$;
revoke all on function budget_internal.book_grants(
  budget_internal.admission[], budget_internal.slot[], budget_internal.rooms, budget_internal.rates, timestamptz
) from public;
comment on function budget_internal.book_grants(
  budget_internal.admission[], budget_internal.slot[], budget_internal.rooms, budget_internal.rates, timestamptz
) is 'Write the grants of a batch.';
