-- budget_internal.explain_rates: the rate limits that apply to one way of granting a request, each with its minute and the code
-- that it alone would refuse with.
create or replace function budget_internal.explain_rates(p_way budget_internal.admission, p_rates budget_internal.rates)
returns jsonb
language plpgsql stable
as $$
declare
  v_alone budget_internal.admission;
  v_scope_id bigint;
  v_rate integer;
  v_limits jsonb;
begin
  v_limits := '[]';
  v_alone := p_way;
  v_alone.slots := '{}';
  v_alone.ceiling_nano_usd := null;
  foreach v_scope_id in array p_way.rate_scope_ids loop
    v_rate := array_position(p_rates.scope_ids, v_scope_id);
    v_alone.rate_scope_ids := array[v_scope_id];
    v_limits := v_limits || (
      select jsonb_build_object(
        'scope', s.kind, 'name', s.name, 'requests_per_minute', p_rates.rpm[v_rate], 'requests', p_rates.requests[v_rate],
        'tokens_per_minute', p_rates.tpm[v_rate], 'tokens', p_rates.tokens[v_rate],
        'resets_at', p_rates.minutes[v_rate] + interval '1 minute',
        'code', case when p_way.code is null then (budget_internal.decide(v_alone, null, p_rates)).code end
      )
      from budget_internal.scopes s
      where s.scope_id = v_scope_id
    );
  end loop;
  return v_limits;
end
$$;
revoke all on function budget_internal.explain_rates(budget_internal.admission, budget_internal.rates) from public;
comment on function budget_internal.explain_rates(budget_internal.admission, budget_internal.rates) is
  'Rate limits of a request with their minute.';
