-- budget.move_key: put a key into another project, unit, member or under other tags. Members that are not named stay; null takes
-- unit, member or tags away. Its next request counts against the new chain; what was spent stays where it was spent, and calls
-- that run settle where they are held.
-- locks:  the org.
-- errors: LB101 unknown key or scope, a unit outside of the key's project; LB109 when a budget would then break an allocation rule.
create or replace function budget.move_key(p_org text, p_name text, p_placement jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_scope record;
  v_broken text[];
begin
  v_scope := budget_internal.lock_scope(p_org, 'key', p_name, array['key']);
  perform budget_internal.check_options('placement', p_placement, array['project', 'unit', 'member', 'tags']);
  v_broken := budget_internal.allocation_state(v_scope.org_id, variadic v_scope.scope_id || array(
    select s.scope_id
    from budget_internal.scopes s
    where s.org_id = v_scope.org_id and s.deleted_at is null and s.kind in ('project', 'unit', 'member')
      and s.name = p_placement ->> s.kind::text
  ));
  perform budget_internal.place_key(v_scope.org_id, v_scope.scope_id, p_placement);
  perform budget_internal.check_allocation(v_broken, v_scope.org_id, v_scope.scope_id);
end
$$;
comment on function budget.move_key(text, text, jsonb) is
  'Place a key anew: project, unit, member, tags (names; null takes away); past spend stays. LB101 on bad '
  'input, LB109 against an allocation rule.';
revoke all on function budget.move_key(text, text, jsonb) from public;
grant execute on function budget.move_key(text, text, jsonb) to budget_admin;
