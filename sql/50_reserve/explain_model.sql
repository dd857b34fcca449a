-- budget_internal.explain_model: the cheapest other model that the key may use and that would fit now, asked for in the same
-- way; null when none does. Candidates go through the steps of reserve a few at a time, cheapest first; those whose lower
-- bound does not fit their budgets are left out before, so that an answer is quick with hundreds of models.
create or replace function budget_internal.explain_model(
  p_request jsonb, p_asked budget_internal.admission, p_rates budget_internal.rates, p_now timestamptz
) returns jsonb
language plpgsql stable
as $$
declare
  v_models text[];
  v_floors bigint[];
  v_fitting record;
  v_best text;
  v_cost bigint;
begin
  select array_agg(m.model order by m.floor_nano_usd, m.model), array_agg(m.floor_nano_usd order by m.floor_nano_usd, m.model)
  into v_models, v_floors
  from budget_internal.models_with_room(p_request, p_asked, p_rates, p_now) m;
  for v_first in 1 .. coalesce(cardinality(v_models), 0) by 4 loop
    exit when v_floors[v_first] > v_cost;
    v_fitting := budget_internal.fitting_model(p_request, v_models[v_first : v_first + 3], p_rates, p_now);
    if v_fitting.model is not null and (v_best is null or v_fitting.cost_nano_usd < v_cost) then
      v_best := v_fitting.model;
      v_cost := v_fitting.cost_nano_usd;
    end if;
  end loop;
  return case when v_best is not null then jsonb_build_object('model', v_best, 'worst_case_usd', budget.usd(v_cost)) end;
end
$$;
revoke all on function budget_internal.explain_model(
  jsonb, budget_internal.admission, budget_internal.rates, timestamptz
) from public;
comment on function budget_internal.explain_model(
  jsonb, budget_internal.admission, budget_internal.rates, timestamptz
) is 'Cheapest other model that would fit, with its worst case in USD.';
