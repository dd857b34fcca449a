-- budget_internal.offer_run: the room of a run that no call has made yet, as one request would make it: its own ceiling and
-- steps count until the first grant sets them.
create or replace function budget_internal.offer_run(
  p_rooms budget_internal.rooms, p_slots budget_internal.slot[], p_request budget_internal.admission
) returns budget_internal.rooms
language plpgsql immutable
as $$
declare
  -- The run comes first in a chain.
  v_slot constant integer := p_request.slots[1];
begin
  if (p_slots[v_slot]).budget_id is null and p_rooms.grants[v_slot] = 0 then
    p_rooms.limits[v_slot] := p_request.run_limit_nano_usd;
    p_rooms.max_grants[v_slot] := p_request.run_max_grants;
  end if;
  return p_rooms;
end
$$;
revoke all on function budget_internal.offer_run(
  budget_internal.rooms, budget_internal.slot[], budget_internal.admission
) from public;
comment on function budget_internal.offer_run(
  budget_internal.rooms, budget_internal.slot[], budget_internal.admission
) is 'Counters with the ceiling of a run that a request would make.';
