-- budget_internal.write_budget: put a budget in the place of another one (null: none; both of one scope and name) and return its
-- id. The row stays where its periods do; otherwise, or when the new one is null, the old one is marked deleted.
create or replace function budget_internal.write_budget(
  p_old budget_internal.budgets, p_new budget_internal.budgets, p_now timestamptz
) returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_budget_id bigint := p_old.budget_id;
begin
  if (p_new.period, p_new.anchor_at, p_new.time_zone, p_new.fiscal_month, p_new.fiscal_day)
     = (p_old.period, p_old.anchor_at, p_old.time_zone, p_old.fiscal_month, p_old.fiscal_day) then
    update budget_internal.budgets b
    set limit_nano_usd = p_new.limit_nano_usd, enforcement = p_new.enforcement, models = p_new.models,
      raise_nano_usd = p_new.raise_nano_usd, raise_until = p_new.raise_until,
      carry_over_cap_nano_usd = p_new.carry_over_cap_nano_usd, allocation = p_new.allocation,
      thresholds = p_new.thresholds, changed_at = p_now
    where b.budget_id = p_old.budget_id and b.org_id = p_old.org_id;
    return v_budget_id;
  end if;
  update budget_internal.budgets b
  set deleted_at = p_now
  where b.budget_id = p_old.budget_id and b.org_id = p_old.org_id;
  if p_new.scope_id is not null then
    v_budget_id := budget_internal.insert_budget(p_new, p_now);
  end if;
  return v_budget_id;
end
$$;
revoke all on function budget_internal.write_budget(budget_internal.budgets, budget_internal.budgets, timestamptz) from public;
comment on function budget_internal.write_budget(budget_internal.budgets, budget_internal.budgets, timestamptz) is
  'Put a budget in the place of another; returns its id.';
