-- budget.settle_batch: turn holds into spend, each once.
-- settlements: [{"reservation_id", "outcome", "usage", "usage_seen", "provider_cost_usd", "service_tier", "clamped", "note"}, ...].
-- locks:   period locks in key order, then reservation rows, then period rows.
-- errors:  LB101 not an array, LB105 isolation, LB9xx broken invariant. What is wrong with one settlement is its own
--          status (rejected, deferred) and never fails its neighbours.
-- plans:   as those of reserve_batch.
-- repeats: the same report again returns what was booked. A first real report after a provisional charge trues it up.
create or replace function budget.settle_batch(p_settlements jsonb) returns setof budget.settle_result
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_material = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_defects text[];
  v_items integer[];
  v_reports jsonb;
begin
  perform budget_internal.require_read_committed();
  if jsonb_typeof(p_settlements) is distinct from 'array' then
    perform budget_internal.fail('LB101', 'settlements must be a JSON array', '');
  end if;

  v_defects := array(
    select budget_internal.settlement_defect(s.value)
    from jsonb_array_elements(p_settlements) with ordinality s
    order by s.ordinality
  );
  v_reports := p_settlements;
  if array_remove(v_defects, null) <> '{}' then
    select array_agg(s.ordinality::integer order by s.ordinality), coalesce(jsonb_agg(s.value order by s.ordinality), '[]')
    into v_items, v_reports
    from jsonb_array_elements(p_settlements) with ordinality s
    where v_defects[s.ordinality] is null;
  end if;

  return query
  select r.* from (
    select coalesce(v_items[c.item], c.item) as item, c.status, c.code, c.message, c.reservation_id, c.charged_nano_usd,
      c.reserved_nano_usd, c.overrun, c.source, c.flags
    from budget_internal.close_reservations(v_reports) c
    union all
    select d.item::integer, 'rejected', 'invalid_request', d.defect, null, null, null, false, null, '{}'
    from unnest(v_defects) with ordinality d (defect, item)
    where d.defect is not null
  ) r
  order by r.item;
end
$$;
comment on function budget.settle_batch(jsonb) is
  'Settle each reservation of a JSON array once; one result each, in order. Amounts in nano-USD.';
revoke all on function budget.settle_batch(jsonb) from public;
grant execute on function budget.settle_batch(jsonb) to budget_gateway, budget_admin;
