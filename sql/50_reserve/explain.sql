-- budget.explain: the whole decision for a would-be request: chain, room, price lines, verdict. Takes nothing, locks nothing,
-- so a reserve right after it may decide otherwise.
create or replace function budget.explain(
  p_key text, p_model text, p_input_tokens bigint, p_max_output_tokens bigint default null, p_options jsonb default '{}'
) returns jsonb
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := budget_internal.clock();
  v_request budget_internal.admission;
  v_budgets jsonb;
  v_lines jsonb;
  v_code text;
begin
  select a.* into v_request from budget_internal.prepare_admissions(jsonb_build_array(jsonb_build_object(
    'key', p_key, 'model', p_model, 'input_tokens', p_input_tokens, 'max_output_tokens', p_max_output_tokens,
    'options', p_options
  )), v_now) a;

  select jsonb_agg(jsonb_build_object(
    'scope', c.kind, 'name', c.name, 'budget', b.name, 'enforcement', b.enforcement, 'period', b.period,
    'starts_at', case when isfinite(s.starts_at) then s.starts_at end,
    'ends_at', case when isfinite(s.ends_at) then s.ends_at end,
    'limit_usd', budget.usd(b.limit_nano_usd), 'spent_usd', budget.usd(coalesce(p.spent_nano_usd, 0)),
    'held_usd', budget.usd(coalesce(p.held_nano_usd, 0)),
    'available_usd', budget.usd(b.limit_nano_usd - coalesce(p.spent_nano_usd, 0) - coalesce(p.held_nano_usd, 0)),
    'code', r.code
  ) order by i.place),
  -- The order of the codes, whatever the place in the chain.
  min(r.code) filter (where r.code = 'request_over_limit')
  into v_budgets, v_code
  from unnest(v_request.budget_ids) with ordinality i (budget_id, place)
  join budget_internal.current_slots(v_request.budget_ids, v_now) s on s.budget_id = i.budget_id
  join budget_internal.budgets b on b.budget_id = i.budget_id
  join budget_internal.scopes c on c.scope_id = b.scope_id
  left join budget_internal.periods p on p.budget_id = s.budget_id and p.starts_at = s.starts_at
  left join lateral budget_internal.refusing_slot(
    v_request.cost_nano_usd, array[1], array[b.limit_nano_usd::bigint], array[coalesce(p.spent_nano_usd, 0)::bigint],
    array[coalesce(p.held_nano_usd, 0)::bigint]
  ) r on v_request.code is null;

  v_code := coalesce(v_request.code, v_code, (
    select min(b ->> 'code') filter (where b ->> 'code' = 'budget_exceeded') from jsonb_array_elements(v_budgets) b
  ), (
    select min(b ->> 'code') from jsonb_array_elements(v_budgets) b
  ));

  select jsonb_agg(jsonb_build_object(
    'provider', p.provider, 'model', p.model, 'price_id', p.price_id, 'kind', u.key, 'quantity', u.value,
    'cost_nano_usd', budget_internal.price_usage(p.price_id, 'standard', jsonb_build_object(u.key, u.value))
  ) order by i.place, u.key)
  into v_lines
  from unnest(v_request.price_ids) with ordinality i (price_id, place)
  join budget_internal.prices p on p.price_id = i.price_id
  cross join lateral jsonb_each(budget_internal.worst_case_usage(
    i.price_id, 'standard', v_request.input_tokens, v_request.output_tokens::numeric * v_request.choices,
    coalesce(array(select jsonb_array_elements_text(p_options -> 'features')), '{}')
  )) u;

  return jsonb_build_object(
    'verdict', coalesce(v_code, 'granted'), 'message', v_request.message, 'model', p_model,
    'input_tokens', v_request.input_tokens, 'output_tokens', v_request.output_tokens, 'choices', v_request.choices,
    'worst_case_usd', budget.usd(v_request.cost_nano_usd), 'routes', v_request.routes,
    'price_lines', coalesce(v_lines, '[]'), 'budgets', coalesce(v_budgets, '[]')
  );
end
$$;
comment on function budget.explain(text, text, bigint, bigint, jsonb) is
  'The decision for a would-be request as JSON: verdict (granted or a code), price lines, budgets. Takes nothing.';
revoke all on function budget.explain(text, text, bigint, bigint, jsonb) from public;
grant execute on function budget.explain(text, text, bigint, bigint, jsonb) to budget_gateway, budget_admin, budget_reader;
