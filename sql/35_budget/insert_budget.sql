-- budget_internal.insert_budget: a new budget with the settings of a row; its id and times are its own. Returns the id.
create or replace function budget_internal.insert_budget(p_budget budget_internal.budgets, p_now timestamptz) returns bigint
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  insert into budget_internal.budgets (
    org_id, scope_id, name, limit_nano_usd, enforcement, period, anchor_at, time_zone, fiscal_month, fiscal_day, models,
    raise_nano_usd, raise_until, carry_over_cap_nano_usd, allocation, thresholds, max_grants, created_at, changed_at
  ) values (
    p_budget.org_id, p_budget.scope_id, p_budget.name, p_budget.limit_nano_usd, p_budget.enforcement, p_budget.period,
    p_budget.anchor_at, p_budget.time_zone, p_budget.fiscal_month, p_budget.fiscal_day, p_budget.models,
    p_budget.raise_nano_usd, p_budget.raise_until, p_budget.carry_over_cap_nano_usd, p_budget.allocation, p_budget.thresholds,
    p_budget.max_grants, p_now, p_now
  ) returning budget_id
$$;
revoke all on function budget_internal.insert_budget(budget_internal.budgets, timestamptz) from public;
comment on function budget_internal.insert_budget(budget_internal.budgets, timestamptz) is 'Insert a budget; returns its id.';
