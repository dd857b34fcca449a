-- budget_internal.fitting_model: of some models the cheapest on which a request would be granted as it was asked.
create or replace function budget_internal.fitting_model(
  p_request jsonb, p_models text[], p_rates budget_internal.rates, p_now timestamptz,
  out model text, out cost_nano_usd bigint
)
language plpgsql stable
as $$
declare
  v_ways budget_internal.admission[];
  v_slots budget_internal.slot[];
  v_rooms budget_internal.rooms;
begin
  v_ways := array(
    select a
    from budget_internal.prepare_admissions((
      select jsonb_agg(p_request || jsonb_build_object('model', m)) from unnest(p_models) m
    ), p_now) a
    where a.code is null and a.rung is null
  );
  v_slots := budget_internal.slots_of(v_ways, p_now);
  v_rooms := budget_internal.read_rooms(v_slots, p_now);
  select w.model, c.cost into fitting_model.model, fitting_model.cost_nano_usd
  from unnest(budget_internal.place_admissions(v_ways, v_slots, p_now)) w
  cross join lateral budget_internal.decide(w, v_rooms, p_rates) d
  cross join lateral (
    select coalesce(d.cost_nano_usd, budget_internal.plan_cost(
      w.price_ids, w.variant, w.input_tokens, d.output_tokens::numeric * w.choices, w.features, p_now
    )) as cost
  ) c
  where d.code is null
  order by c.cost nulls last, w.model, w.rung_place
  limit 1;
end
$$;
revoke all on function budget_internal.fitting_model(jsonb, text[], budget_internal.rates, timestamptz) from public;
comment on function budget_internal.fitting_model(jsonb, text[], budget_internal.rates, timestamptz) is
  'Cheapest of some models on which a request would fit; null when none.';
