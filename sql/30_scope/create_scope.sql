-- budget.create_scope: a new org, project, unit, member, tag or account. Its place in the tree:
--   org, account  p_org null
--   project, member, tag  of the org
--   unit  under a project or under another unit, at most four units deep
-- locks:  the org.
-- errors: LB101 bad or taken name, unknown org, parent or kind, a fifth level of units.
create or replace function budget.create_scope(
  p_org text, p_kind text, p_name text, p_parent_kind text default null, p_parent_name text default null
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_kinds constant text[] := array['org', 'project', 'unit', 'member', 'tag', 'account'];
  v_org_id bigint;
  v_parent record;
begin
  if p_kind is null or p_kind <> all (v_kinds) then
    perform budget_internal.fail('LB101', format(
      'kind must be one of %s, not %s', array_to_string(v_kinds, ', '), coalesce(to_json(left(p_kind, 40))::text, 'null')
    ), case p_kind when 'key' then 'Keys are made by budget.create_key.' when 'run' then 'Runs are made by budget.start_run.' else '' end);
  end if;
  if p_kind <> 'unit' and (p_parent_kind is not null or p_parent_name is not null) then
    perform budget_internal.fail('LB101', format('parent_kind and parent_name must be null for a %s: only a unit has a place to choose', p_kind), '');
  end if;

  if p_kind in ('org', 'account') then
    if p_org is not null then
      perform budget_internal.fail('LB101', format('org must be null for a new %s', p_kind), '');
    end if;
    if p_kind = 'account' then
      perform budget_internal.lock_org(0);
      return budget_internal.insert_scope(0, 'account', p_name, null);
    end if;
    return budget_internal.insert_org(p_name);
  end if;

  v_org_id := budget_internal.find_org(coalesce(p_org, ''));
  perform budget_internal.lock_org(v_org_id);
  if p_kind <> 'unit' then
    return budget_internal.insert_scope(v_org_id, p_kind::budget.scope_kind, p_name, v_org_id);
  end if;
  v_parent := budget_internal.unit_parent(v_org_id, p_parent_kind, p_parent_name);
  if v_parent.depth >= 4 then
    perform budget_internal.fail(
      'LB101', format('parent_name %s is four units deep already, the most there can be', to_json(p_parent_name)), ''
    );
  end if;
  return budget_internal.insert_scope(v_org_id, 'unit', p_name, v_parent.parent_id);
end
$$;
comment on function budget.create_scope(text, text, text, text, text) is
  'Create an org or account (p_org null), a project, member or tag of an org, or a unit under a project or unit; returns its '
  'id. LB101 on bad input.';
revoke all on function budget.create_scope(text, text, text, text, text) from public;
grant execute on function budget.create_scope(text, text, text, text, text) to budget_admin;
