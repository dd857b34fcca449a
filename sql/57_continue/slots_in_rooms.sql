-- budget_internal.slots_in_rooms: where the periods of one reservation stand among those that were read, in chain order.
create or replace function budget_internal.slots_in_rooms(p_period_ids bigint[], p_rooms budget_internal.rooms)
returns integer[]
language plpgsql immutable
as $$
begin
  return array(
    select array_position(p_rooms.period_ids, i.period_id)
    from unnest(p_period_ids) with ordinality i (period_id, place)
    order by i.place
  );
end
$$;
revoke all on function budget_internal.slots_in_rooms(bigint[], budget_internal.rooms) from public;
comment on function budget_internal.slots_in_rooms(bigint[], budget_internal.rooms) is 'Positions of periods.';
