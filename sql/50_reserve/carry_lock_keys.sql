-- budget_internal.carry_lock_keys: the locks of the periods whose unused room goes over into periods that this call makes.
create or replace function budget_internal.carry_lock_keys(p_slots budget_internal.slot[]) returns bigint[]
language plpgsql stable
as $$
begin
  return array(
    select budget_internal.period_lock_key(b.budget_id, t.starts_at)
    from unnest(p_slots) s
    join budget_internal.budgets b on b.budget_id = s.budget_id and b.carry_over_cap_nano_usd is not null
    cross join lateral budget_internal.period_bounds(
      b.period, b.anchor_at, b.time_zone, b.fiscal_month, b.fiscal_day, s.starts_at - interval '1 microsecond'
    ) t
    where isfinite(s.starts_at) and not exists (
      select 1 from budget_internal.periods p where p.budget_id = s.budget_id and p.starts_at = s.starts_at
    )
  );
end
$$;
revoke all on function budget_internal.carry_lock_keys(budget_internal.slot[]) from public;
comment on function budget_internal.carry_lock_keys(budget_internal.slot[]) is 'Lock keys of periods that are carried over.';
