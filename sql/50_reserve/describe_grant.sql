-- budget_internal.describe_grant: the answer to a request that fits. It holds its cost where a strict budget is on its chain, and
-- warns of the budget that is most used, where its settled spend has reached its lowest threshold.
create or replace function budget_internal.describe_grant(p_request budget_internal.admission, p_rooms budget_internal.rooms)
returns budget.reserve_result
language plpgsql stable
as $$
declare
  v_result budget.reserve_result;
  v_slot integer;
  v_used numeric;
  v_most_used numeric := -1;
  v_warned integer;
begin
  v_result.item := p_request.item;
  v_result.status := 'granted';
  v_result.reservation_id := p_request.reservation_id;
  v_result.granted_output_tokens := p_request.output_tokens;
  v_result.cap_output_tokens := p_request.cap_output_tokens;
  v_result.rung := p_request.rung;
  v_result.rung_changes := p_request.rung_changes;
  v_result.routes := p_request.routes;
  v_result.budget_ids := p_request.budget_ids;
  v_result.worst_case_nano_usd := p_request.cost_nano_usd;
  v_result.reserved_nano_usd := 0;
  foreach v_slot in array p_request.slots loop
    if p_rooms.enforcements[v_slot] = 'strict' then
      v_result.reserved_nano_usd := coalesce(p_request.cost_nano_usd, 0);
    end if;
    -- A limit of 0 is reached by the first that is spent.
    if p_rooms.spent[v_slot] > 0
       and p_rooms.spent[v_slot] * 100::numeric >= p_rooms.limits[v_slot]::numeric * p_rooms.warn_percents[v_slot] then
      v_used := p_rooms.spent[v_slot]::numeric / nullif(p_rooms.limits[v_slot], 0);
      if v_used is null or v_used > v_most_used then
        v_most_used := v_used;
        v_warned := v_slot;
      end if;
    end if;
  end loop;
  if v_warned is not null then
    -- Names are read only where there is something to say.
    select format(
      '%s %s/%s: %s of %s USD used', s.kind, s.name, b.name, coalesce(floor(v_most_used * 100) || '%', 'all'),
      budget.usd(p_rooms.limits[v_warned])
    ) into v_result.warning
    from budget_internal.periods p
    join budget_internal.budgets b on b.budget_id = p.budget_id
    join budget_internal.scopes s on s.scope_id = b.scope_id
    where p.period_id = p_rooms.period_ids[v_warned];
  end if;
  return v_result;
end
$$;
revoke all on function budget_internal.describe_grant(budget_internal.admission, budget_internal.rooms) from public;
comment on function budget_internal.describe_grant(budget_internal.admission, budget_internal.rooms) is 'Result of a grant.';
