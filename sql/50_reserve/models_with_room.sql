-- budget_internal.models_with_room: the other models of a key whose least possible cost fits all budgets that they lead to. Not
-- yet a decision: what the request really costs on them may still be too much.
create or replace function budget_internal.models_with_room(
  p_request jsonb, p_asked budget_internal.admission, p_rates budget_internal.rates, p_now timestamptz,
  out model text, out floor_nano_usd bigint
) returns setof record
language plpgsql stable
as $$
declare
  v_probe budget_internal.admission := p_asked;
  v_slots budget_internal.slot[];
  v_rooms budget_internal.rooms;
  v_candidate record;
begin
  -- The budgets of all candidates, read once.
  v_probe.code := null;
  v_probe.budget_ids := array(
    select b.budget_id
    from budget_internal.budgets b
    where b.deleted_at is null and b.scope_id = any (p_asked.scope_ids || array(
      select s.scope_id from budget_internal.scopes s where s.org_id = 0 and s.kind = 'account' and s.deleted_at is null
    ))
  );
  v_slots := budget_internal.slots_of(array[v_probe], p_now);
  v_rooms := budget_internal.read_rooms(v_slots, p_now);
  v_probe.input_tokens := 0;
  v_probe.output_tokens := 1;
  for v_candidate in
    select c.* from budget_internal.cheapest_models(p_request, p_asked.key_id, p_rates, p_now) c
  loop
    v_probe.cost_nano_usd := v_candidate.floor_nano_usd;
    v_probe.slots := array(
      select s.ordinality::integer
      from unnest(v_slots) with ordinality s
      left join budget_internal.budgets b on b.budget_id = s.budget_id
      left join budget_internal.scopes c on c.scope_id = b.scope_id
      where (b.models is null or b.models && v_candidate.upstream_models)
        and (c.kind is distinct from 'account' or c.scope_id = any (v_candidate.account_ids))
    );
    if (budget_internal.decide(v_probe, v_rooms, p_rates)).code is null then
      model := v_candidate.model;
      floor_nano_usd := v_candidate.floor_nano_usd;
      return next;
    end if;
  end loop;
end
$$;
revoke all on function budget_internal.models_with_room(
  jsonb, budget_internal.admission, budget_internal.rates, timestamptz
) from public;
comment on function budget_internal.models_with_room(
  jsonb, budget_internal.admission, budget_internal.rates, timestamptz
) is 'Models whose least cost fits their budgets, in nano-USD.';
