-- budget_internal.is_compared: whether an allocation rule compares a budget with one above it (of period total or not, for some
-- models or null: for all). Not compared: soft ones, those without a limit, total with periods, and with a budget for some models
-- those for other models or for all. Inlined where it is used.
create or replace function budget_internal.is_compared(p_budget budget_internal.budgets, p_total boolean, p_models text[])
returns boolean
language sql immutable parallel safe
as $$
  select (p_budget).deleted_at is null and (p_budget).limit_nano_usd is not null
    and (p_budget).enforcement operator(pg_catalog.<>) 'soft'
    and ((p_budget).period operator(pg_catalog.=) 'total') operator(pg_catalog.=) p_total
    and (p_models is null or coalesce((p_budget).models operator(pg_catalog.<@) p_models, false))
$$;
revoke all on function budget_internal.is_compared(budget_internal.budgets, boolean, text[]) from public;
comment on function budget_internal.is_compared(budget_internal.budgets, boolean, text[]) is
  'Whether an allocation rule compares a budget with one above it.';
