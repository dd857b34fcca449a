-- budget_internal.find_budget: a budget by the scope and name that people know it by, with the tree of its org locked.
-- locks:  the org, see lock_org.
-- errors: LB101 unknown scope or budget, a scope of kind run.
create or replace function budget_internal.find_budget(p_org text, p_scope_kind text, p_scope_name text, p_name text)
returns budget_internal.budgets
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_scope record;
  v_budget budget_internal.budgets;
begin
  v_scope := budget_internal.lock_budget_scope(p_org, p_scope_kind, p_scope_name);
  select b.* into v_budget
  from budget_internal.budgets b
  where b.scope_id = v_scope.scope_id and b.org_id = v_scope.org_id and b.name = p_name and b.deleted_at is null;
  if v_budget.budget_id is null then
    perform budget_internal.fail('LB101', format(
      'budget name %s: the %s %s has no such budget', coalesce(to_json(left(p_name, 200))::text, 'null'), p_scope_kind,
      to_json(p_scope_name)
    ), 'A budget that was given no name has that of its period.');
  end if;
  return v_budget;
end
$$;
revoke all on function budget_internal.find_budget(text, text, text, text) from public;
comment on function budget_internal.find_budget(text, text, text, text) is 'Find a budget and lock the tree of its org; LB101 when unknown.';
