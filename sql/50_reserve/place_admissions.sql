-- budget_internal.place_admissions: write into each admission where its periods stand in the list, in chain order, and the id
-- of its reservation.
create or replace function budget_internal.place_admissions(
  p_admissions budget_internal.admission[], p_slots budget_internal.slot[], p_now timestamptz
) returns budget_internal.admission[]
language plpgsql volatile
as $$
declare
  v_budget_ids constant bigint[] := array(select s.budget_id from unnest(p_slots) with ordinality s order by s.ordinality);
begin
  return array(
    select (
      a.item, a.rung_place, a.rung, a.action, a.rung_changes, a.code, a.message, a.org_id, a.key_id, a.scope_ids, a.model,
      a.input_tokens, a.output_tokens, a.choices, a.features, a.request_id, a.body_hash, a.holder, a.cost_nano_usd,
      a.variant, a.cap_output_tokens, a.fits_around, a.ceiling_nano_usd, a.route_ids, a.price_ids, a.routes, a.stale_seconds, a.idempotency_days,
      a.budget_ids, a.rate_scope_ids, a.run_name, a.run_id, a.run_limit_nano_usd, a.run_max_grants,
      case when a.run_name is not null and a.run_id is null then array(
        select s.ordinality::integer
        from unnest(p_slots) with ordinality s
        where s.key_id = a.key_id and s.run_name = a.run_name
      ) else '{}' end || array_remove(array(select array_position(v_budget_ids, b) from unnest(a.budget_ids) b), null),
      case when a.code is null then budget_internal.uuid_v7(p_now) end, a.is_countable
    )::budget_internal.admission
    from unnest(p_admissions) a
    order by a.item, a.rung_place
  );
end
$$;
revoke all on function budget_internal.place_admissions(budget_internal.admission[], budget_internal.slot[], timestamptz) from public;
comment on function budget_internal.place_admissions(budget_internal.admission[], budget_internal.slot[], timestamptz) is
  'Admissions with the positions of their periods and their ids.';
