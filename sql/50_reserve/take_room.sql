-- budget_internal.take_room: the counters of a call after one more grant.
create or replace function budget_internal.take_room(p_rooms budget_internal.rooms, p_request budget_internal.admission)
returns budget_internal.rooms
language plpgsql immutable
as $$
declare
  v_slot integer;
begin
  foreach v_slot in array p_request.slots loop
    if p_rooms.enforcements[v_slot] = 'strict' then
      p_rooms.held[v_slot] := p_rooms.held[v_slot] + coalesce(p_request.cost_nano_usd, 0);
      p_rooms.grants[v_slot] := p_rooms.grants[v_slot] + 1;
    end if;
  end loop;
  return p_rooms;
end
$$;
revoke all on function budget_internal.take_room(budget_internal.rooms, budget_internal.admission) from public;
comment on function budget_internal.take_room(budget_internal.rooms, budget_internal.admission) is 'Counters after a grant.';
