-- budget_internal.describe_rate_refusal: a refusal by a rate limit: whose, the numbers, the seconds left in the minute. What is
-- over the whole limit has no moment to come back at.
create or replace function budget_internal.describe_rate_refusal(
  p_result budget.reserve_result, p_request budget_internal.admission, p_rates budget_internal.rates, p_rate integer,
  p_now timestamptz
) returns budget.reserve_result
language plpgsql stable
as $$
declare
  v_tokens bigint := p_request.input_tokens + least(1, p_request.output_tokens) * p_request.choices;
begin
  select s.kind, s.name into p_result.scope_kind, p_result.scope_name
  from budget_internal.scopes s where s.scope_id = p_rates.scope_ids[p_rate];
  if p_result.code = 'request_over_limit' then
    p_result.message := format(
      '%s %s may use %s tokens a minute, and this request needs at least %s: it can never fit; shorten the '
      'input or ask for a higher limit',
      p_result.scope_kind, to_json(p_result.scope_name), p_rates.tpm[p_rate], v_tokens
    );
    return p_result;
  end if;
  p_result.resets_at := p_rates.minutes[p_rate] + interval '1 minute';
  p_result.retry_after_seconds := greatest(1, ceil(extract(epoch from p_result.resets_at - p_now)))::integer;
  if p_result.code = 'rate_limit_exceeded' then
    p_result.message := format(
      '%s %s may make %s requests a minute and has made %s in this one; try again in %s s',
      p_result.scope_kind, to_json(p_result.scope_name), p_rates.rpm[p_rate], p_rates.requests[p_rate],
      p_result.retry_after_seconds
    );
  else
    p_result.message := format(
      '%s %s may use %s tokens a minute; %s of this one are used or held, and this request needs at least %s; try again in %s s',
      p_result.scope_kind, to_json(p_result.scope_name), p_rates.tpm[p_rate], p_rates.tokens[p_rate], v_tokens,
      p_result.retry_after_seconds
    );
  end if;
  return p_result;
end
$$;
revoke all on function budget_internal.describe_rate_refusal(
  budget.reserve_result, budget_internal.admission, budget_internal.rates, integer, timestamptz
) from public;
comment on function budget_internal.describe_rate_refusal(
  budget.reserve_result, budget_internal.admission, budget_internal.rates, integer, timestamptz
) is 'Complete a refusal by a rate limit.';
