-- budget_internal.replace_budget: write_budget under the allocation rules. Call it with the org locked.
-- errors: LB109 a rule is broken that was not before; then nothing has changed.
create or replace function budget_internal.replace_budget(
  p_old budget_internal.budgets, p_new budget_internal.budgets, p_now timestamptz
) returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_org_id bigint := coalesce(p_new.org_id, p_old.org_id);
  v_scope_id bigint := coalesce(p_new.scope_id, p_old.scope_id);
  v_before text[];
  v_budget_id bigint;
begin
  begin
    v_budget_id := budget_internal.write_budget(p_old, p_new, p_now);
    if not exists (select 1 from budget_internal.allocation_violations(v_org_id, v_scope_id)) then
      return v_budget_id;
    end if;
    perform budget_internal.fail('LB109', 'undo', '');
  exception when sqlstate 'LB109' then
    null;
  end;
  -- A rule is broken, as seldom happens: undone, to see how it was before. What was broken then is not this change's doing.
  v_before := budget_internal.allocation_state(v_org_id, v_scope_id);
  v_budget_id := budget_internal.write_budget(p_old, p_new, p_now);
  perform budget_internal.check_allocation(v_before, v_org_id, v_scope_id);
  return v_budget_id;
end
$$;
revoke all on function budget_internal.replace_budget(budget_internal.budgets, budget_internal.budgets, timestamptz) from public;
comment on function budget_internal.replace_budget(budget_internal.budgets, budget_internal.budgets, timestamptz) is
  'Put a budget in the place of another; LB109 against an allocation rule.';
