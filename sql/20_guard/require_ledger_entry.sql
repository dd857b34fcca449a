-- A hold never vanishes: a reservation may leave its table only together with the ledger row that ends it.
create or replace function budget_internal.require_ledger_entry() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  -- Booked just now, as ever: in one or two partitions. Only if it does not look so are the others opened, and those decide.
  if exists (
    select 1 from gone g
    where not exists (
      select 1 from budget_internal.ledger_entries l
      where l.reservation_id = g.reservation_id and l.kind <> 'leg'
        and l.booked_at between now() - interval '1 day' and now() + interval '1 day'
      -- Not pulled up: each by its id, not by the day.
      offset 0
    )
  ) and exists (
    select 1 from gone g
    where not exists (select 1 from budget_internal.ledger_entries l where l.reservation_id = g.reservation_id and l.kind <> 'leg')
  ) then
    raise exception using
      errcode = 'LB903',
      message = 'a reservation was deleted without a ledger entry that ends it',
      hint = 'End reservations with budget.settle, budget.release or budget.reconcile_one.';
  end if;
  return null;
end
$$;
revoke all on function budget_internal.require_ledger_entry() from public;
comment on function budget_internal.require_ledger_entry() is 'Trigger: deleting a reservation needs the ledger row that ends it.';

create or replace trigger reservations_end_in_the_ledger after delete on budget_internal.reservations
referencing old table as gone for each statement execute function budget_internal.require_ledger_entry();
