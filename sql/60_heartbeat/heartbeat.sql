-- budget.heartbeat: say that these reservations are still being worked on.
-- A reservation that is already stale stays stale, whether or not the reconciler has come by: alive is false, and a late
-- settle trues it up. Never revives an ended reservation.
-- locks: reservation rows by id.
create or replace function budget.heartbeat(p_reservation_ids uuid[])
returns table (reservation_id uuid, alive boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
as $$
begin
  perform budget_internal.require_read_committed();
  return query
  with mine as materialized (
    select r.reservation_id, r.org_id
    from budget_internal.reservations r
    where r.reservation_id = any (p_reservation_ids)
    order by r.reservation_id
    for update
  ), beaten as (
    update budget_internal.reservations r
    set stale_at = budget_internal.clock() + make_interval(secs => r.stale_seconds)
    from mine m
    where r.reservation_id = m.reservation_id and r.stale_at >= budget_internal.clock()
      and r.reconciliation_quarantined_at is null
    returning r.reservation_id
  )
  select i.reservation_id, b.reservation_id is not null
  from (select distinct u from unnest(p_reservation_ids) u) i (reservation_id)
  left join beaten b on b.reservation_id = i.reservation_id
  where i.reservation_id is not null;
end
$$;
comment on function budget.heartbeat(uuid[]) is 'Keep reservations from going stale; alive tells which ones still are.';
revoke all on function budget.heartbeat(uuid[]) from public;
grant execute on function budget.heartbeat(uuid[]) to budget_gateway, budget_admin;
