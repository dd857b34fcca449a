-- budget_internal.repeat_grant: the answer to a request id that was granted before: the same grant for the same body,
-- a conflict for another. The caller that made the first call (same holder) and still runs it just gets its grant.
create or replace function budget_internal.repeat_grant(
  p_result budget.reserve_result, p_request budget_internal.admission, p_earlier jsonb
) returns budget.reserve_result
language plpgsql immutable
as $$
begin
  p_result.reservation_id := (p_earlier ->> 'reservation_id')::uuid;
  p_result.state := p_earlier ->> 'state';
  p_result.worst_case_nano_usd := null;
  if p_earlier ->> 'body_hash' is distinct from p_request.body_hash then
    p_result.code := 'idempotency_conflict';
    p_result.message := format(
      'request id %s was used for another request (reservation %s, %s); use a new id for a new request',
      to_json(p_request.request_id), p_result.reservation_id, p_result.state
    );
    return p_result;
  end if;
  p_result.status := case
    when p_result.state = 'open' and p_earlier ->> 'holder' = p_request.holder then 'granted' else 'granted_again'
  end;
  p_result.code := null;
  p_result.message := null;
  p_result.reserved_nano_usd := (p_earlier ->> 'reserved')::bigint;
  p_result.granted_output_tokens := (p_earlier ->> 'output_tokens')::bigint;
  p_result.routes := p_earlier -> 'routes';
  p_result.cap_output_tokens := (p_earlier ->> 'cap_output_tokens')::bigint;
  p_result.rung := p_earlier ->> 'rung';
  p_result.rung_changes := nullif(p_earlier -> 'rung_changes', 'null');
  return p_result;
end
$$;
revoke all on function budget_internal.repeat_grant(budget.reserve_result, budget_internal.admission, jsonb) from public;
comment on function budget_internal.repeat_grant(budget.reserve_result, budget_internal.admission, jsonb) is
  'Answer a repeated request id.';
