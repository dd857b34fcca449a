-- budget_internal.describe_budget_refusal: a refusal by a budget: which one, its numbers, when it has room again. The result may
-- come with what would make the request smaller, as its message.
create or replace function budget_internal.describe_budget_refusal(
  p_result budget.reserve_result, p_slot budget_internal.slot, p_rooms budget_internal.rooms, p_place integer, p_now timestamptz
) returns budget.reserve_result
language plpgsql stable
as $$
declare
  v_limit constant bigint := p_rooms.limits[p_place];
  v_spent constant bigint := p_rooms.spent[p_place];
  v_held constant bigint := p_rooms.held[p_place];
  v_name text;
  v_cost text := case
    when p_result.worst_case_nano_usd is null then 'this request'
    else format('this request could cost up to $%s', budget.usd(p_result.worst_case_nano_usd))
  end;
begin
  p_slot := budget_internal.named_slot(p_slot);
  p_result.budget_id := p_slot.budget_id;
  p_result.scope_kind := p_slot.names[1];
  p_result.scope_name := p_slot.names[2];
  p_result.budget_name := p_slot.names[3];
  p_result.limit_nano_usd := v_limit;
  p_result.spent_nano_usd := v_spent;
  p_result.held_nano_usd := v_held;
  p_result.available_nano_usd := v_limit - v_spent - v_held;
  p_result.resets_at := case when isfinite(p_slot.ends_at) then p_slot.ends_at end;
  v_name := format('the %s budget of %s %s', p_result.budget_name, p_result.scope_kind, to_json(p_result.scope_name));

  if p_rooms.grants[p_place] >= p_rooms.max_grants[p_place] then
    p_result.message := format(
      'run %s has taken its %s steps; start another run', to_json(p_result.scope_name), p_rooms.max_grants[p_place]
    );
  elsif p_result.code = 'request_over_limit' then
    p_result.message := format(
      '%s, more than the whole limit of %s ($%s); %s', v_cost, v_name, budget.usd(v_limit),
      case
        when v_limit = 0 then 'it allows nothing that costs money: ask for a limit'
        else coalesce(p_result.message, 'lower max_tokens or shorten the input')
      end
    );
  elsif p_result.code = 'budget_exceeded' then
    p_result.retry_after_seconds := greatest(1, least(ceil(extract(epoch from p_result.resets_at - p_now)), 2147483647));
    if p_result.resets_at is null then
      p_result.retry_after_seconds := null;
    end if;
    p_result.message := format(
      '%s, but %s has $%s left: $%s of $%s is spent; %s%s',
      v_cost, v_name, budget.usd(greatest(0, v_limit - v_spent)), budget.usd(v_spent), budget.usd(v_limit),
      coalesce('it resets at ' || to_char(p_result.resets_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
        'it never resets, ask for a higher limit'),
      case when v_limit > v_spent then ', or make the request smaller' end
    );
  elsif p_rooms.closed[p_place] then
    p_result.retry_after_seconds := 1;
    p_result.message := format('%s has just closed; try again', v_name);
  else
    p_result.retry_after_seconds := budget_internal.busy_seconds(
      p_slot, coalesce(p_result.worst_case_nano_usd, 1) - p_result.available_nano_usd, v_held, p_now
    );
    p_result.message := format(
      '%s, but other running requests hold $%s of %s ($%s of $%s is spent); try again in %s s',
      v_cost, budget.usd(v_held), v_name, budget.usd(v_spent), budget.usd(v_limit), p_result.retry_after_seconds
    );
  end if;
  return p_result;
end
$$;
revoke all on function budget_internal.describe_budget_refusal(
  budget.reserve_result, budget_internal.slot, budget_internal.rooms, integer, timestamptz
) from public;
comment on function budget_internal.describe_budget_refusal(
  budget.reserve_result, budget_internal.slot, budget_internal.rooms, integer, timestamptz
) is 'Complete a refusal by a budget.';
