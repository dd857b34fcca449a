-- budget_internal.due_reservations: what the reconciler takes next, oldest first. Without locks: judged again under them.
-- p_beside_locks: leave out those whose locks another session has at this moment, so that one budget that is stuck
-- does not keep the others waiting.
create or replace function budget_internal.due_reservations(p_limit integer, p_now timestamptz, p_beside_locks boolean)
returns setof budget_internal.reservations
language plpgsql stable
as $$
declare
  v_busy bigint[] := array[]::bigint[];
begin
  if p_beside_locks then
    v_busy := array(
      select (l.classid::bigint << 32) | l.objid::bigint
      from pg_locks l
      where l.locktype = 'advisory' and l.objsubid = 1 and l.granted and l.pid <> pg_backend_pid()
        and l.database = (select d.oid from pg_database d where d.datname = current_database())
    );
  end if;
  return query
  select d.*
  from (
    select r.* from budget_internal.reservations r
    where r.reconciliation_quarantined_at is null and coalesce(r.reconcile_after, r.stale_at) < p_now
    order by coalesce(r.reconcile_after, r.stale_at)
    limit case when p_beside_locks then 20 * p_limit else p_limit end
  ) d
  where v_busy = '{}' or not budget_internal.settle_lock_keys(array[d.reservation_id]) && v_busy
  order by coalesce(d.reconcile_after, d.stale_at)
  limit p_limit;
end
$$;
revoke all on function budget_internal.due_reservations(integer, timestamptz, boolean) from public;
comment on function budget_internal.due_reservations(integer, timestamptz, boolean) is 'Reservations that are due to be reconciled.';
