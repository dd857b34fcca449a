-- budget_internal.count_units: add what ended calls cost to the month of every unit that their keys were under when they were
-- admitted. Month of the hold, UTC. Rows in one order: two settlements never wait for each other.
create or replace function budget_internal.count_units(p_closures budget_internal.closure[]) returns void
language plpgsql volatile
as $$
begin
  insert into budget_internal.unit_months as u (org_id, unit_id, month_on, spent_nano_usd)
  select r.org_id, s.scope_id, date_trunc('month', r.reserved_at at time zone 'UTC')::date as month_on, sum(c.amount_nano_usd)::bigint
  from unnest(p_closures) c
  join budget_internal.reservations r on r.reservation_id = c.reservation_id
  join budget_internal.scopes s on s.scope_id = any (r.scope_ids) and s.kind = 'unit'
  where c.amount_nano_usd <> 0
  group by r.org_id, s.scope_id, month_on
  order by s.scope_id, month_on
  on conflict (unit_id, month_on, org_id) do update set spent_nano_usd = u.spent_nano_usd + excluded.spent_nano_usd;
end
$$;
revoke all on function budget_internal.count_units(budget_internal.closure[]) from public;
comment on function budget_internal.count_units(budget_internal.closure[]) is 'Add the cost of ended calls to their units.';
