-- budget_internal.insert_scope: one new scope; LB101 when the name is taken.
create or replace function budget_internal.insert_scope(p_org_id bigint, p_kind budget.scope_kind, p_name text, p_parent_id bigint)
returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_scope_id bigint;
begin
  perform budget_internal.check_name(p_kind || ' name', p_name);
  insert into budget_internal.scopes (org_id, kind, name, parent_id, created_at)
  values (p_org_id, p_kind, p_name, p_parent_id, budget_internal.clock())
  on conflict (org_id, kind, name) where deleted_at is null and kind <> 'run' do nothing
  returning scope_id into v_scope_id;
  if v_scope_id is null then
    perform budget_internal.fail('LB101', format('there is already a %s %s in this org', p_kind, to_json(p_name)), '');
  end if;
  return v_scope_id;
end
$$;
revoke all on function budget_internal.insert_scope(bigint, budget.scope_kind, text, bigint) from public;
comment on function budget_internal.insert_scope(bigint, budget.scope_kind, text, bigint) is 'Insert a scope; LB101 on a bad or taken name.';
