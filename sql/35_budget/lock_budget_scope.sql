-- budget_internal.lock_budget_scope: a scope that an admin may give budgets to, with the tree of its org locked: two changes
-- that keep the allocation rules one by one cannot break them together.
-- locks:  the org, see lock_org.
-- errors: LB101 unknown org or scope; a run.
create or replace function budget_internal.lock_budget_scope(
  p_org text, p_scope_kind text, p_scope_name text, out org_id bigint, out scope_id bigint
)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_scope_kind = 'run' then
    perform budget_internal.fail(
      'LB101', 'scope kind must not be run: a run has the one budget it was started with',
      'The budget of a run is set by budget.start_run and given back by budget.end_run.'
    );
  end if;
  select s.org_id, s.scope_id into org_id, scope_id
  from budget_internal.lock_scope(
    p_org, p_scope_kind, p_scope_name, array['org', 'project', 'unit', 'member', 'tag', 'key', 'account']
  ) s;
end
$$;
revoke all on function budget_internal.lock_budget_scope(text, text, text) from public;
comment on function budget_internal.lock_budget_scope(text, text, text) is
  'Find a scope that can be given budgets and lock the tree of its org; LB101 when there is none.';
