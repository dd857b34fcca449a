-- budget_internal.held_slots: the periods that open reservations hold, each once, in the order of their ids.
create or replace function budget_internal.held_slots(p_reservation_ids uuid[]) returns budget_internal.slot[]
language plpgsql stable
as $$
begin
  return array(
    select (p.lock_key, p.org_id, p.budget_id, p.starts_at, p.ends_at, true, null, null, null, null, null, null)::budget_internal.slot
    from budget_internal.periods p
    where p.period_id in (
      select unnest(r.held_period_ids) from budget_internal.reservations r where r.reservation_id = any (p_reservation_ids)
    )
    order by p.period_id
  );
end
$$;
revoke all on function budget_internal.held_slots(uuid[]) from public;
comment on function budget_internal.held_slots(uuid[]) is 'Periods that reservations hold.';
