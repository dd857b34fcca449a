-- budget_internal.insert_org: one new org; LB101 when the name is taken.
create or replace function budget_internal.insert_org(p_name text) returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_org_id bigint := nextval(pg_get_serial_sequence('budget_internal.scopes', 'scope_id'));
begin
  perform budget_internal.check_name('org name', p_name);
  insert into budget_internal.scopes (org_id, scope_id, kind, name, created_at)
  values (v_org_id, v_org_id, 'org', p_name, budget_internal.clock())
  on conflict (name) where kind = 'org' and deleted_at is null do nothing;
  if not found then
    perform budget_internal.fail('LB101', format('there is already an org %s', to_json(p_name)), '');
  end if;
  return v_org_id;
end
$$;
revoke all on function budget_internal.insert_org(text) from public;
comment on function budget_internal.insert_org(text) is 'Insert an org; LB101 on a bad or taken name.';
