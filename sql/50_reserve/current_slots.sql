-- budget_internal.current_slots: the periods of some budgets at a moment, each once, in a fixed order.
create or replace function budget_internal.current_slots(p_budget_ids bigint[], p_now timestamptz)
returns setof budget_internal.slot
language sql stable
as $$
  select
    coalesce(p.lock_key, budget_internal.period_lock_key(b.budget_id, t.starts_at)), b.org_id, b.budget_id, t.starts_at,
    t.ends_at, b.enforcement = 'strict', null::bigint, null::text, null::bigint, null::bigint,
    case when b.carry_over_cap_nano_usd is not null and p.period_id is null and isfinite(t.starts_at) then (
      select budget_internal.period_lock_key(b.budget_id, e.starts_at)
      from budget_internal.period_bounds(
        b.period, b.anchor_at, b.time_zone, b.fiscal_month, b.fiscal_day, t.starts_at - interval '1 microsecond'
      ) e
    ) end, null::text[]
  from (select distinct budget_id from unnest(p_budget_ids) budget_id) i
  join budget_internal.budgets b on b.budget_id = i.budget_id
  cross join lateral budget_internal.period_bounds(
    b.period, b.anchor_at, b.time_zone, b.fiscal_month, b.fiscal_day, p_now
  ) t
  left join budget_internal.periods p on p.budget_id = b.budget_id and p.starts_at = t.starts_at
  order by b.budget_id
$$;
revoke all on function budget_internal.current_slots(bigint[], timestamptz) from public;
comment on function budget_internal.current_slots(bigint[], timestamptz) is 'Current periods of budgets.';
