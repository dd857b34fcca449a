-- budget.explain: the whole decision on a would-be request, as reserve would take it now: verdict and message, how each way of
-- granting it fares, price lines, budgets and rate limits with their room; for a refusal what to change. Takes nothing, locks
-- nothing, so a reserve right after it may decide otherwise. Repeated request ids are not looked at.
-- worst_case_usd, output_tokens, price_lines, budgets and rate_limits are those of the way that is granted, or of the request as
-- it was asked. input_note says where the input was lowered to what the context window holds.
create or replace function budget.explain(
  p_key text, p_model text, p_input_tokens bigint, p_max_output_tokens bigint default null, p_options jsonb default '{}'
) returns jsonb
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now constant timestamptz := budget_internal.clock();
  v_request constant jsonb := jsonb_build_object(
    'key', p_key, 'model', p_model, 'input_tokens', p_input_tokens, 'max_output_tokens', p_max_output_tokens, 'options', p_options
  );
  v_ways budget_internal.admission[];
  v_slots budget_internal.slot[];
  v_rooms budget_internal.rooms;
  v_rates budget_internal.rates;
  v_taken budget_internal.admission;
  v_code text;
  v_answer record;
begin
  v_ways := array(
    select a from budget_internal.prepare_admissions(jsonb_build_array(v_request), v_now) a order by a.rung_place
  );
  v_slots := budget_internal.slots_of(v_ways, v_now);
  v_ways := budget_internal.place_admissions(v_ways, v_slots, v_now);
  v_rooms := budget_internal.read_rooms(v_slots, v_now);
  v_rates := budget_internal.read_rates(v_ways[1].rate_scope_ids, v_now);
  v_answer := budget_internal.explain_ways(v_ways, v_slots, v_rooms, v_rates, v_now);
  v_taken := v_ways[v_answer.place];
  v_taken.output_tokens := v_answer.output_tokens;
  v_taken.cost_nano_usd := v_answer.cost_nano_usd;

  v_code := v_taken.code;
  if v_code <> 'invalid_key' then
    -- What is refused before it comes to the budgets is shown with them all the same.
    v_taken.code := null;
    v_slots := budget_internal.slots_of(array[v_taken], v_now);
    v_taken := (budget_internal.place_admissions(array[v_taken], v_slots, v_now))[1];
    v_taken.code := v_code;
    v_ways[1] := v_taken;
    v_rooms := budget_internal.read_rooms(v_slots, v_now);
  end if;

  return jsonb_build_object(
    'verdict', coalesce(v_answer.code, 'granted'), 'message', v_answer.message, 'model', p_model,
    'rung', v_answer.rung, 'rung_changes', v_answer.rung_changes,
    'input_tokens', v_taken.input_tokens,
    'input_note', case when v_taken.input_tokens < p_input_tokens and not p_options ? 'input_bounds' then format(
      'the model''s context window has room for %s tokens of input, so no more is held', v_taken.input_tokens
    ) end,
    'output_tokens', v_taken.output_tokens, 'choices', v_taken.choices,
    'worst_case_usd', budget.usd(v_taken.cost_nano_usd), 'request_ceiling_usd', budget.usd(v_taken.ceiling_nano_usd),
    'resets_at', v_answer.resets_at, 'retry_after_seconds', v_answer.retry_after_seconds,
    'routes', v_taken.routes, 'ways', v_answer.ways,
    'price_lines', budget_internal.explain_prices(v_taken, v_now),
    'budgets', budget_internal.explain_budgets(v_taken, v_slots, v_rooms),
    'rate_limits', budget_internal.explain_rates(v_taken, v_rates),
    'changes', case when v_answer.code is not null then budget_internal.explain_changes(
      v_request, v_ways[1], v_taken, v_slots, v_rooms, v_rates, v_now
    ) end
  );
end
$$;
comment on function budget.explain(text, text, bigint, bigint, jsonb) is
  'The decision for a would-be request as JSON: verdict (granted or a code), ways, price lines, budgets, rate limits, changes '
  'that would make it fit. Takes nothing.';
revoke all on function budget.explain(text, text, bigint, bigint, jsonb) from public;
grant execute on function budget.explain(text, text, bigint, bigint, jsonb) to budget_gateway, budget_admin, budget_reader;
