-- budget_internal.describe_grant: the answer to a request that fits. It holds its cost where a strict budget is on its chain.
create or replace function budget_internal.describe_grant(p_request budget_internal.admission, p_rooms budget_internal.rooms)
returns budget.reserve_result
language plpgsql immutable
as $$
declare
  v_result budget.reserve_result;
  v_slot integer;
begin
  v_result.item := p_request.item;
  v_result.status := 'granted';
  v_result.reservation_id := p_request.reservation_id;
  v_result.granted_output_tokens := p_request.output_tokens;
  v_result.cap_output_tokens := p_request.cap_output_tokens;
  v_result.rung := p_request.rung;
  v_result.rung_changes := p_request.rung_changes;
  v_result.routes := p_request.routes;
  v_result.worst_case_nano_usd := p_request.cost_nano_usd;
  v_result.reserved_nano_usd := 0;
  foreach v_slot in array p_request.slots loop
    if p_rooms.enforcements[v_slot] = 'strict' then
      v_result.reserved_nano_usd := coalesce(p_request.cost_nano_usd, 0);
    end if;
  end loop;
  return v_result;
end
$$;
revoke all on function budget_internal.describe_grant(budget_internal.admission, budget_internal.rooms) from public;
comment on function budget_internal.describe_grant(budget_internal.admission, budget_internal.rooms) is 'Result of a grant.';
