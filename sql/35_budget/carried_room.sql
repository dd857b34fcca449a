-- budget_internal.carried_room: what a new period takes over from the one just before it, up to the budget's cap: the room
-- that nothing has spent and nothing holds. Called under the locks of both periods; the earlier one is closed by it.
create or replace function budget_internal.carried_room(p_budget_id bigint, p_starts_at timestamptz)
returns bigint
language plpgsql stable
as $$
declare
  v_budget budget_internal.budgets;
  v_before timestamptz;
  v_period budget_internal.periods;
begin
  select b.* into v_budget from budget_internal.budgets b where b.budget_id = p_budget_id;
  -- A budget that is younger than the period before has no room left over from it.
  if v_budget.carry_over_cap_nano_usd is null or v_budget.limit_nano_usd is null or v_budget.created_at >= p_starts_at
     or not isfinite(p_starts_at) then
    return 0;
  end if;
  select t.starts_at into v_before
  from budget_internal.period_bounds(
    v_budget.period, v_budget.anchor_at, v_budget.time_zone, v_budget.fiscal_month, v_budget.fiscal_day,
    p_starts_at - interval '1 microsecond'
  ) t;
  select p.* into v_period from budget_internal.periods p where p.budget_id = p_budget_id and p.starts_at = v_before;
  -- What was raised for a time is not carried: it was room for then.
  return greatest(0, least(
    v_budget.carry_over_cap_nano_usd,
    v_budget.limit_nano_usd::numeric + coalesce(v_period.carried_nano_usd, 0)
      + coalesce(v_period.forgiven_nano_usd, 0)
      - coalesce(v_period.spent_nano_usd, 0) - coalesce(v_period.held_nano_usd, 0)
  ))::bigint;
end
$$;
revoke all on function budget_internal.carried_room(bigint, timestamptz) from public;
comment on function budget_internal.carried_room(bigint, timestamptz) is
  'Unused room of the period before, up to the cap, in nano-USD.';
