-- budget_internal.carried_room: what a new period takes over from those before it, up to the budget's cap: the room that nothing
-- has spent and nothing holds. A period that no call opened passes on its whole limit and what it would have taken over.
-- Called under the locks of the period and of the one before; those before are closed by the clock.
create or replace function budget_internal.carried_room(p_budget_id bigint, p_starts_at timestamptz) returns bigint
language plpgsql stable
as $$
declare
  v_budget budget_internal.budgets;
  v_before timestamptz := p_starts_at;
  v_period budget_internal.periods;
  v_idle numeric := 0;
begin
  select b.* into v_budget from budget_internal.budgets b where b.budget_id = p_budget_id;
  if v_budget.carry_over_cap_nano_usd is null or v_budget.limit_nano_usd is null or not isfinite(p_starts_at) then
    return 0;
  end if;
  -- Back to the last period that was opened, or to the first that the budget saw, or until idle periods alone fill the cap.
  -- A budget that is younger than a period has no room left over from it.
  while v_idle < v_budget.carry_over_cap_nano_usd and v_budget.created_at < v_before loop
    select t.starts_at into v_before
    from budget_internal.period_bounds(
      v_budget.period, v_budget.anchor_at, v_budget.time_zone, v_budget.fiscal_month, v_budget.fiscal_day,
      v_before - interval '1 microsecond'
    ) t;
    select p.* into v_period
    from budget_internal.periods p
    where p.budget_id = p_budget_id and p.starts_at = v_before;
    if v_period.period_id is not null then
      -- What was raised for a time is not carried: it was room for then.
      return least(v_budget.carry_over_cap_nano_usd, v_idle + greatest(0, least(
        v_budget.carry_over_cap_nano_usd,
        v_budget.limit_nano_usd::numeric + v_period.carried_nano_usd + v_period.forgiven_nano_usd
          - v_period.spent_nano_usd - v_period.held_nano_usd
      )))::bigint;
    end if;
    exit when v_budget.limit_nano_usd = 0 and not exists (
      select 1 from budget_internal.periods p where p.budget_id = p_budget_id and p.starts_at < v_before
    );
    v_idle := v_idle + v_budget.limit_nano_usd;
  end loop;
  return least(v_budget.carry_over_cap_nano_usd, v_idle)::bigint;
end
$$;
revoke all on function budget_internal.carried_room(bigint, timestamptz) from public;
comment on function budget_internal.carried_room(bigint, timestamptz) is
  'Unused room of the periods before, up to the cap, in nano-USD.';
