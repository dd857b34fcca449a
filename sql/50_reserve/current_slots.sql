-- budget_internal.current_slots: the periods of some budgets at a moment, each once, in a fixed order.
create or replace function budget_internal.current_slots(p_budget_ids bigint[], p_now timestamptz)
returns setof budget_internal.slot
language sql stable
as $$
  select budget_internal.period_lock_key(b.budget_id, t.starts_at), b.org_id, b.budget_id, t.starts_at, t.ends_at
  from (select distinct budget_id from unnest(p_budget_ids) budget_id) i
  join budget_internal.budgets b on b.budget_id = i.budget_id
  cross join lateral budget_internal.period_bounds(b.period, b.anchor_at, b.time_zone, b.fiscal_month, b.fiscal_day, p_now) t
  order by b.budget_id
$$;
revoke all on function budget_internal.current_slots(bigint[], timestamptz) from public;
comment on function budget_internal.current_slots(bigint[], timestamptz) is 'Current periods of budgets.';
