-- budget.rename_scope: another name for a scope; its spend, budgets and keys stay with it.
-- locks:   the org.
-- errors:  LB101 unknown scope, bad or taken name.
-- repeats: to the name it has: nothing happens.
create or replace function budget.rename_scope(p_org text, p_kind text, p_name text, p_new_name text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_scope record;
begin
  v_scope := budget_internal.lock_scope(
    p_org, p_kind, p_name, array['org', 'project', 'unit', 'member', 'tag', 'key', 'account']
  );
  perform budget_internal.check_name('new_name', p_new_name);
  begin
    update budget_internal.scopes s set name = p_new_name where s.scope_id = v_scope.scope_id and s.name <> p_new_name;
  exception when unique_violation then
    perform budget_internal.fail('LB101', format('new_name is taken: there is already a %s %s', p_kind, to_json(p_new_name)), '');
  end;
  -- Tags are in the chain by name.
  if p_kind = 'tag' then
    perform budget_internal.refresh_chains(v_scope.org_id, array(
      select t.key_id from budget_internal.key_tags t where t.tag_id = v_scope.scope_id
    ));
  end if;
end
$$;
comment on function budget.rename_scope(text, text, text, text) is
  'Rename an org, project, unit, member, tag, key or account. LB101 on an unknown scope, a bad or taken name.';
revoke all on function budget.rename_scope(text, text, text, text) from public;
grant execute on function budget.rename_scope(text, text, text, text) to budget_admin;
