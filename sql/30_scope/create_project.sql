-- budget.create_project: a new project of an org.
-- errors: LB101 unknown org, bad or taken name.
create or replace function budget.create_project(p_org text, p_name text) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_org_id bigint := budget_internal.find_org(coalesce(p_org, ''));
begin
  return budget_internal.insert_scope(v_org_id, 'project', p_name, v_org_id);
end
$$;
comment on function budget.create_project(text, text) is 'Create a project in an org; returns its id. LB101 on bad names.';
revoke all on function budget.create_project(text, text) from public;
grant execute on function budget.create_project(text, text) to budget_admin;
