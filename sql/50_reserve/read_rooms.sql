-- budget_internal.read_rooms: limits and counters of the periods of a call, in the order of its slots. Read after the locks.
create or replace function budget_internal.read_rooms(p_slots budget_internal.slot[], p_now timestamptz)
returns budget_internal.rooms
language plpgsql stable
as $$
declare
  v_rooms budget_internal.rooms;
begin
  select
    coalesce(array_agg(p.period_id order by s.ordinality), '{}'),
    -- A budget that is not strict any more is not held. One that was not strict before the locks is not locked: it turns
    -- strict for the next request.
    array_agg(
      case when s.budget_id is null then 'strict' when b.enforcement = 'soft' then 'soft'
        when s.strict and b.enforcement = 'strict' then 'strict' else 'check' end order by s.ordinality
    ),
    -- A budget that was deleted or replaced since it was looked up still decides on this call: its successor is not in
    -- the chain, so to let go of it would be to let the call go unbudgeted.
    array_agg(
      case when s.budget_id is null then s.run_limit_nano_usd else budget_internal.limit_in_force(
        b.limit_nano_usd, b.raise_nano_usd, b.raise_until,
        case when p.period_id is null and b.carry_over_cap_nano_usd is not null
          then budget_internal.carried_room(b.budget_id, s.starts_at) else p.carried_nano_usd end,
        p_now
      ) end order by s.ordinality
    ),
    array_agg(coalesce(p.spent_nano_usd - p.forgiven_nano_usd, 0)::bigint order by s.ordinality),
    array_agg(coalesce(p.held_nano_usd, 0)::bigint order by s.ordinality),
    array_agg(case when s.budget_id is null then s.run_max_grants else b.max_grants end order by s.ordinality),
    array_agg(coalesce(p.grants, 0) order by s.ordinality),
    array_agg(
      s.strict and b.budget_id is not null and (
        b.carry_over_cap_nano_usd is not null and s.ends_at <= p_now
        or b.deleted_at is not null and exists (select 1 from budget_internal.runs r where r.budget_id = b.budget_id)
      )
      order by s.ordinality
    ),
    array_agg(0::bigint),
    -- Thresholds are kept in order; a budget that is over its limit is told of in any case.
    array_agg(least(b.thresholds[1], 100::smallint) order by s.ordinality)
  into v_rooms
  from unnest(p_slots) with ordinality s
  left join budget_internal.periods p on p.budget_id = s.budget_id and p.starts_at = s.starts_at
  left join budget_internal.budgets b on b.budget_id = s.budget_id;
  return v_rooms;
end
$$;
revoke all on function budget_internal.read_rooms(budget_internal.slot[], timestamptz) from public;
comment on function budget_internal.read_rooms(budget_internal.slot[], timestamptz) is 'Counters of the periods of a call.';
