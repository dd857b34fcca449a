-- budget_internal.find_scope: the id of a scope by kind and name within an org; LB101 when there is none.
create or replace function budget_internal.find_scope(p_org_id bigint, p_kind text, p_name text) returns bigint
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_scope_id bigint;
begin
  if p_kind is null or p_kind <> all (enum_range(null::budget.scope_kind)::text[]) then
    perform budget_internal.fail(
      'LB101', format('scope kind must be one of %s', array_to_string(enum_range(null::budget.scope_kind)::text[], ', ')), ''
    );
  end if;
  if p_name is null then
    perform budget_internal.fail('LB101', format('the name of the %s is missing', p_kind), '');
  end if;
  select s.scope_id into v_scope_id
  from budget_internal.scopes s
  where s.org_id = p_org_id and s.kind = p_kind::budget.scope_kind and s.name = p_name and s.deleted_at is null
    -- As the index has it. The name of a run is its key's, so a run is not found by name alone.
    and s.kind <> 'run';
  if v_scope_id is null then
    perform budget_internal.fail('LB101', format('there is no %s %s in this org', p_kind, to_json(left(p_name, 200))), '');
  end if;
  return v_scope_id;
end
$$;
revoke all on function budget_internal.find_scope(bigint, text, text) from public;
comment on function budget_internal.find_scope(bigint, text, text) is 'Scope id by kind and name; LB101 when unknown.';
