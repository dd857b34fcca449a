-- budget_internal.open_periods: make the period rows that a call is the first to need. Called under their locks; a race on a
-- period that is only read, and so not locked, ends in one row.
create or replace function budget_internal.open_periods(p_slots budget_internal.slot[]) returns void
language plpgsql volatile
as $$
begin
  insert into budget_internal.periods (org_id, budget_id, starts_at, ends_at, lock_key, carried_nano_usd, hold_ms)
  select
    s.org_id, s.budget_id, s.starts_at, s.ends_at, s.lock_key,
    budget_internal.carried_room(s.budget_id, s.starts_at),
    coalesce((
      select p.hold_ms from budget_internal.periods p
      where p.budget_id = s.budget_id and p.starts_at < s.starts_at order by p.starts_at desc limit 1
    ), 0)
  from unnest(p_slots) s
  where s.budget_id is not null and not exists (
    select 1 from budget_internal.periods p where p.budget_id = s.budget_id and p.starts_at = s.starts_at
  )
  order by s.budget_id
  on conflict do nothing;
end
$$;
revoke all on function budget_internal.open_periods(budget_internal.slot[]) from public;
comment on function budget_internal.open_periods(budget_internal.slot[]) is 'Make missing period rows.';
