-- budget_internal.describe_refusal: fill a refusal with the budget that caused it: numbers, a sentence, when to come back.
create or replace function budget_internal.describe_refusal(
  p_result budget.reserve_result, p_slot budget_internal.slot, p_limit_nano_usd bigint, p_spent_nano_usd bigint,
  p_held_nano_usd bigint, p_now timestamptz
) returns budget.reserve_result
language plpgsql stable
as $$
declare
  v_name text;
begin
  select s.kind, s.name, b.name into p_result.scope_kind, p_result.scope_name, p_result.budget_name
  from budget_internal.budgets b
  join budget_internal.scopes s on s.scope_id = b.scope_id
  where b.budget_id = p_slot.budget_id;
  p_result.limit_nano_usd := p_limit_nano_usd;
  p_result.spent_nano_usd := p_spent_nano_usd;
  p_result.held_nano_usd := p_held_nano_usd;
  p_result.available_nano_usd := p_limit_nano_usd - p_spent_nano_usd - p_held_nano_usd;
  p_result.resets_at := case when isfinite(p_slot.ends_at) then p_slot.ends_at end;
  p_result.retry_after_seconds := case p_result.code
    when 'budget_busy' then 2
    when 'budget_exceeded' then case
      when p_result.resets_at is not null
        then greatest(1, least(ceil(extract(epoch from p_result.resets_at - p_now)), 2147483647))::integer
    end
  end;
  v_name := format('the %s budget of %s %s', p_result.budget_name, p_result.scope_kind, to_json(p_result.scope_name));
  p_result.message := case p_result.code
    when 'request_over_limit' then format(
      'this request could cost up to $%s, more than the whole limit of %s ($%s); lower max_tokens or shorten the input',
      budget.usd(p_result.worst_case_nano_usd), v_name, budget.usd(p_limit_nano_usd))
    when 'budget_exceeded' then format(
      'this request could cost up to $%s, but %s has $%s left: $%s of $%s is spent; %s, or lower max_tokens',
      budget.usd(p_result.worst_case_nano_usd), v_name, budget.usd(p_limit_nano_usd - p_spent_nano_usd),
      budget.usd(p_spent_nano_usd), budget.usd(p_limit_nano_usd),
      coalesce('it resets at ' || to_char(p_result.resets_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'it never resets, ask for a higher limit'))
    else format(
      'this request could cost up to $%s, but other running requests hold $%s of %s ($%s of $%s is spent); try again in a few seconds',
      budget.usd(p_result.worst_case_nano_usd), budget.usd(p_held_nano_usd), v_name,
      budget.usd(p_spent_nano_usd), budget.usd(p_limit_nano_usd))
  end;
  return p_result;
end
$$;
revoke all on function budget_internal.describe_refusal(
  budget.reserve_result, budget_internal.slot, bigint, bigint, bigint, timestamptz
) from public;
comment on function budget_internal.describe_refusal(
  budget.reserve_result, budget_internal.slot, bigint, bigint, bigint, timestamptz
) is 'Complete a refusal with its budget, message and Retry-After.';
