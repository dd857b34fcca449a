-- budget_internal.is_compared: whether an allocation rule compares a budget with one above it. Not compared: soft ones, those
-- without a limit, total with periods, and with a budget for some models those for other models or for all.
create or replace function budget_internal.is_compared(p_budget budget_internal.budgets, p_above budget_internal.budgets)
returns boolean
language sql immutable parallel safe
as $$
  select (p_budget).deleted_at is null and (p_budget).limit_nano_usd is not null
    and (p_budget).enforcement operator(pg_catalog.<>) 'soft'
    and ((p_budget).period operator(pg_catalog.=) 'total')
      operator(pg_catalog.=) ((p_above).period operator(pg_catalog.=) 'total')
    and ((p_above).models is null or coalesce((p_budget).models operator(pg_catalog.<@) (p_above).models, false))
$$;
revoke all on function budget_internal.is_compared(budget_internal.budgets, budget_internal.budgets) from public;
comment on function budget_internal.is_compared(budget_internal.budgets, budget_internal.budgets) is
  'Whether an allocation rule compares two budgets.';
