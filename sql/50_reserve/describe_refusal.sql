-- budget_internal.describe_refusal: fill a refusal with what caused it: the budget or limit, numbers, a sentence, when to come
-- back. A retry_after_seconds of null means that waiting does not help. Routes are there where a closer bound of the input may fit:
-- of a key that goes by a tokenizer.
create or replace function budget_internal.describe_refusal(
  p_result budget.reserve_result, p_request budget_internal.admission, p_decision budget_internal.decision,
  p_slots budget_internal.slot[], p_rooms budget_internal.rooms, p_rates budget_internal.rates, p_now timestamptz
) returns budget.reserve_result
language plpgsql stable
as $$
declare
  v_smaller constant text := format(
    'lower max_tokens%s or shorten the input', case when p_request.choices > 1 then ' or n,' else '' end
  );
begin
  p_result.code := p_decision.code;
  p_result.worst_case_nano_usd := p_decision.cost_nano_usd;
  if p_request.is_countable and p_decision.code <> 'rate_limit_exceeded' then
    p_result.routes := budget_internal.countable_routes(p_request.key_id, p_request.model);
  end if;
  if p_decision.rate is not null then
    return budget_internal.describe_rate_refusal(p_result, p_request, p_rates, p_decision.rate, p_now);
  elsif p_decision.slot is not null then
    p_result.message := v_smaller;
    return budget_internal.describe_budget_refusal(p_result, p_slots[p_decision.slot], p_rooms, p_decision.slot, p_now);
  end if;
  p_result.message := format(
    'this request could cost up to $%s, more than the ceiling of $%s for one request of this key; %s',
    budget.usd(p_decision.cost_nano_usd), budget.usd(p_request.ceiling_nano_usd), v_smaller
  );
  return p_result;
end
$$;
revoke all on function budget_internal.describe_refusal(
  budget.reserve_result, budget_internal.admission, budget_internal.decision, budget_internal.slot[], budget_internal.rooms,
  budget_internal.rates, timestamptz
) from public;
comment on function budget_internal.describe_refusal(
  budget.reserve_result, budget_internal.admission, budget_internal.decision, budget_internal.slot[], budget_internal.rooms,
  budget_internal.rates, timestamptz
) is 'Complete a refusal with its cause, message and Retry-After.';
