-- budget_internal.settle_lock_keys: the locks that the end of some reservations, open or ended, needs: all their
-- periods, the units whose spend they count in, and the rate windows that they correct. Read before
-- locking: a reservation never changes its periods or its scopes.
create or replace function budget_internal.settle_lock_keys(p_reservation_ids uuid[]) returns bigint[]
language plpgsql stable
as $$
begin
  return (
    with open as (
      select r.reservation_id, r.held_period_ids || r.counted_period_ids as period_ids, r.scope_ids, r.rate_scope_ids
      from budget_internal.reservations r
      where r.reservation_id = any (p_reservation_ids)
    ), held as (
      select o.period_ids, o.scope_ids, o.rate_scope_ids from open o
      union all
      select e.period_ids, e.scope_ids, e.rate_scope_ids
      from budget_internal.ended_chains(array(
        select i.id from unnest(p_reservation_ids) i (id) where i.id not in (select o.reservation_id from open o)
      )) e
    )
    select coalesce(array_agg(k.lock_key), '{}')
    from (
      select p.lock_key
      from budget_internal.periods p
      -- By their ids, here and below, whatever the planner believes of these tables.
      where p.period_id = any (array(select unnest(h.period_ids) from held h))
      union all
      select budget_internal.unit_lock_key(s.scope_id)
      from budget_internal.scopes s
      where s.scope_id = any (array(select unnest(h.scope_ids) from held h)) and s.kind = 'unit'
      union all
      select budget_internal.rate_lock_key(i.scope_id)
      from held h
      cross join lateral unnest(h.rate_scope_ids) i (scope_id)
    ) k
  );
end
$$;
revoke all on function budget_internal.settle_lock_keys(uuid[]) from public;
comment on function budget_internal.settle_lock_keys(uuid[]) is 'Advisory lock keys that ending reservations needs.';
