-- budget_internal.refusing_slot: the first period in chain order that refuses a cost, and why; slot null when all have room.
-- Checked in the order of the codes: over a whole limit, then spent alone, then others' holds. What costs nothing always fits.
create or replace function budget_internal.refusing_slot(
  p_cost bigint, p_slots integer[], p_limits bigint[], p_spent bigint[], p_held bigint[], out slot integer, out code text
)
language plpgsql immutable
as $$
declare
  v_slot integer;
  v_limit bigint;
begin
  if p_cost = 0 then
    return;
  end if;
  foreach v_slot in array p_slots loop
    -- No limit is the end of what a counter can hold. Written as a difference: a sum could pass the range of bigint.
    v_limit := coalesce(p_limits[v_slot], 9000000000000000000);
    if p_cost > v_limit then
      slot := v_slot;
      code := 'request_over_limit';
      return;
    elsif p_cost > v_limit - p_spent[v_slot] then
      if code is distinct from 'budget_exceeded' then
        slot := v_slot;
        code := 'budget_exceeded';
      end if;
    elsif code is null and p_cost > v_limit - p_spent[v_slot] - p_held[v_slot] then
      slot := v_slot;
      code := 'budget_busy';
    end if;
  end loop;
end
$$;
revoke all on function budget_internal.refusing_slot(bigint, integer[], bigint[], bigint[], bigint[]) from public;
comment on function budget_internal.refusing_slot(bigint, integer[], bigint[], bigint[], bigint[]) is
  'First period that refuses a cost, with the code; null when it fits.';
