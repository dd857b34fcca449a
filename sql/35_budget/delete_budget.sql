-- budget.delete_budget: take a budget away. The very next request is admitted without it; calls that run settle where they are
-- held, and what was counted stays in its periods and in the ledger.
-- locks:  the org.
-- errors: LB101 unknown scope or budget, a run; LB105 isolation; LB109 when budgets that it stood over would then break an
--         allocation rule above.
create or replace function budget.delete_budget(p_org text, p_scope_kind text, p_scope_name text, p_name text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_budget budget_internal.budgets := budget_internal.find_budget(p_org, p_scope_kind, p_scope_name, p_name);
begin
  perform budget_internal.replace_budget(v_budget, null, budget_internal.clock());
end
$$;
comment on function budget.delete_budget(text, text, text, text) is
  'Delete a budget of a scope by name; what it counted stays in the ledger. LB101 on bad input, LB109 against an allocation rule.';
revoke all on function budget.delete_budget(text, text, text, text) from public;
grant execute on function budget.delete_budget(text, text, text, text) to budget_admin;
