-- budget_internal.explain_changes: what the caller of a refused request can change so that it fits: each by itself, null where it
-- does not help.
create or replace function budget_internal.explain_changes(
  p_request jsonb, p_asked budget_internal.admission, p_taken budget_internal.admission, p_slots budget_internal.slot[],
  p_rooms budget_internal.rooms, p_rates budget_internal.rates, p_now timestamptz
) returns jsonb
language plpgsql stable
as $$
declare
  -- Of the most that any model writes: a cap above it is the cap of nobody.
  v_most constant integer := 1000000;
  v_capped budget_internal.admission;
  v_slots budget_internal.slot[] := p_slots;
  v_rooms budget_internal.rooms := p_rooms;
begin
  v_capped := p_asked;
  if p_asked.code in ('invalid_key', 'key_disabled', 'key_expired', 'budget_config_invalid') or p_asked.key_id is null then
    return '{"max_output_tokens": null, "model": null, "at": null}'::jsonb;
  end if;
  if p_asked.code in ('output_limit_required', 'invalid_request') then
    -- Refused before anything was decided: for want of a cap, or for one that is out of range.
    select a.* into v_capped
    from budget_internal.prepare_admissions(jsonb_build_array(p_request || jsonb_build_object(
      'max_output_tokens', least(v_most, (p_request ->> 'max_output_tokens')::numeric)
    )), p_now) a
    where a.rung_place = 0;
    v_slots := budget_internal.slots_of(array[v_capped], p_now);
    v_capped := (budget_internal.place_admissions(array[v_capped], v_slots, p_now))[1];
    v_rooms := budget_internal.read_rooms(v_slots, p_now);
  end if;
  return jsonb_build_object(
    'max_output_tokens', budget_internal.explain_output(v_capped, v_rooms, p_rates, p_now),
    'model', budget_internal.explain_model(p_request, p_asked, p_rates, p_now),
    'at', budget_internal.explain_at(p_taken, p_slots, p_rooms, p_rates, p_now)
  );
end
$$;
revoke all on function budget_internal.explain_changes(
  jsonb, budget_internal.admission, budget_internal.admission, budget_internal.slot[], budget_internal.rooms,
  budget_internal.rates, timestamptz
) from public;
comment on function budget_internal.explain_changes(
  jsonb, budget_internal.admission, budget_internal.admission, budget_internal.slot[], budget_internal.rooms,
  budget_internal.rates, timestamptz
) is 'What would make a refused request fit: output cap, model, time.';
