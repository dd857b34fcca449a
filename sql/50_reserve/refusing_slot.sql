-- budget_internal.refusing_slot: the first period in chain order that refuses a call, and why; slot null when all have room.
-- Checked in the order of the codes: over a whole limit, then spent alone, then others' holds. What costs nothing always fits.
--   strict    the whole cost must fit beside what is spent and held
--   check     what is spent must be below the limit
--   soft      never refuses
-- Without a known cost a strict budget looks at spent alone, or (p_fits_around) at spent and held.
create or replace function budget_internal.refusing_slot(
  p_cost bigint, p_fits_around boolean, p_slots integer[], p_enforcements text[], p_limits bigint[], p_spent bigint[],
  p_held bigint[], p_max_grants bigint[], p_grants bigint[], p_closed boolean[], out slot integer, out code text
)
language plpgsql immutable
as $$
declare
  v_slot integer;
  v_limit bigint;
begin
  foreach v_slot in array p_slots loop
    -- No limit is the end of what a counter can hold. Written as a difference: a sum could pass the range of bigint.
    v_limit := coalesce(p_limits[v_slot], 9000000000000000000);
    if p_enforcements[v_slot] = 'strict' and p_cost > v_limit then
      slot := v_slot;
      code := 'request_over_limit';
      return;
    elsif code is distinct from 'budget_exceeded' and (
      p_grants[v_slot] >= p_max_grants[v_slot]
      or case
        when p_enforcements[v_slot] = 'soft' or p_cost = 0 then false
        when p_enforcements[v_slot] = 'check' or p_cost is null then p_spent[v_slot] >= v_limit
        else p_cost > v_limit - p_spent[v_slot]
      end
    ) then
      slot := v_slot;
      code := 'budget_exceeded';
    elsif code is null and (
      p_closed[v_slot]
      or p_enforcements[v_slot] = 'strict' and case
        when p_cost = 0 then false
        when p_cost is null then p_fits_around and v_limit - p_spent[v_slot] - p_held[v_slot] <= 0
        else p_cost > v_limit - p_spent[v_slot] - p_held[v_slot]
      end
    ) then
      slot := v_slot;
      code := 'budget_busy';
    end if;
  end loop;
end
$$;
revoke all on function budget_internal.refusing_slot(
  bigint, boolean, integer[], text[], bigint[], bigint[], bigint[], bigint[], bigint[], boolean[]
) from public;
comment on function budget_internal.refusing_slot(
  bigint, boolean, integer[], text[], bigint[], bigint[], bigint[], bigint[], bigint[], boolean[]
) is 'First period that refuses a call, with the code; null when it fits.';
