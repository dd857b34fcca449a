-- budget_internal.period_lock_keys: the locks of all periods that some reservations, open or ended, belong to.
-- Read before locking: a reservation never changes its periods.
create or replace function budget_internal.period_lock_keys(p_reservation_ids uuid[]) returns bigint[]
language plpgsql stable
as $$
begin
  return (
    with held as (
      select r.held_period_ids || r.counted_period_ids as period_ids
      from budget_internal.reservations r
      where r.reservation_id = any (p_reservation_ids)
      union all
      select l.period_ids
      from unnest(p_reservation_ids) i (reservation_id)
      join budget_internal.ledger_entries l on l.reservation_id = i.reservation_id
      where not exists (select 1 from budget_internal.reservations r where r.reservation_id = i.reservation_id)
    )
    select coalesce(array_agg(p.lock_key), '{}')
    from budget_internal.periods p
    where p.period_id in (select unnest(h.period_ids) from held h)
  );
end
$$;
revoke all on function budget_internal.period_lock_keys(uuid[]) from public;
comment on function budget_internal.period_lock_keys(uuid[]) is 'Advisory lock keys of the periods of reservations.';
