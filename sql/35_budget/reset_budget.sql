-- budget.reset_budget: begin the current period of a budget anew: nothing of what was spent counts against the limit any more.
-- Spend stays in the ledger. Calls that run keep their holds, and count with what they cost when they end.
-- locks:   the org, then the period.
-- errors:  LB101 unknown scope or budget, a run; LB105 isolation.
-- repeats: forgives what was spent since.
create or replace function budget.reset_budget(p_org text, p_scope_kind text, p_scope_name text, p_name text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_budget budget_internal.budgets := budget_internal.find_budget(p_org, p_scope_kind, p_scope_name, p_name);
  v_slot budget_internal.slot;
  v_now timestamptz;
begin
  select s.* into v_slot from budget_internal.current_slots(array[v_budget.budget_id], budget_internal.clock()) s;
  perform budget_internal.take_locks(array[v_slot.lock_key]);
  v_now := budget_internal.clock();
  update budget_internal.periods p
  set forgiven_nano_usd = p.spent_nano_usd, reset_at = v_now
  where p.budget_id = v_slot.budget_id and p.starts_at = v_slot.starts_at;
  -- A mark that its counter was touched.
  update budget_internal.budgets b set changed_at = v_now where b.budget_id = v_budget.budget_id and b.org_id = v_budget.org_id;
end
$$;
comment on function budget.reset_budget(text, text, text, text) is
  'Forgive what the current period of a budget has spent; running calls still count. LB101 unknown budget.';
revoke all on function budget.reset_budget(text, text, text, text) from public;
grant execute on function budget.reset_budget(text, text, text, text) to budget_admin;
