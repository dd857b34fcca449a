-- budget_internal.take_rate: the windows of a call after one more grant.
create or replace function budget_internal.take_rate(p_rates budget_internal.rates, p_request budget_internal.admission)
returns budget_internal.rates
language plpgsql immutable
as $$
declare
  v_tokens constant bigint := p_request.input_tokens + p_request.output_tokens * p_request.choices;
  v_scope_id bigint;
  v_rate integer;
begin
  foreach v_scope_id in array p_request.rate_scope_ids loop
    v_rate := array_position(p_rates.scope_ids, v_scope_id);
    p_rates.requests[v_rate] := p_rates.requests[v_rate] + 1;
    p_rates.tokens[v_rate] := p_rates.tokens[v_rate] + v_tokens;
  end loop;
  return p_rates;
end
$$;
revoke all on function budget_internal.take_rate(budget_internal.rates, budget_internal.admission) from public;
comment on function budget_internal.take_rate(budget_internal.rates, budget_internal.admission) is 'Windows after a grant.';
