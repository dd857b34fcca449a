-- budget_internal.find_org: the id of an org by name, null name = the installation (0); LB101 when there is none.
create or replace function budget_internal.find_org(p_org text) returns bigint
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_org_id bigint;
begin
  if p_org is null then
    return 0;
  end if;
  select s.org_id into v_org_id
  from budget_internal.scopes s
  where s.kind = 'org' and s.name = p_org and s.deleted_at is null and s.org_id <> 0;
  if v_org_id is null then
    perform budget_internal.fail('LB101', format('there is no org %s', to_json(left(p_org, 200))), 'Create it with budget.create_scope.');
  end if;
  return v_org_id;
end
$$;
revoke all on function budget_internal.find_org(text) from public;
comment on function budget_internal.find_org(text) is 'Org id by name; LB101 when unknown.';
