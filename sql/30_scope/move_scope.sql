-- budget.move_scope: put a unit, with all beneath it, under another unit or project of its org. The next request of every key
-- beneath counts against the new chain; what was spent stays where it was spent, and calls that run settle where they are held.
-- A unit with a key beneath stays in its project, because its keys do.
-- locks:   the org.
-- errors:  LB101 unknown unit or parent, beneath itself, more than four units deep, another project while keys are beneath;
--          LB109 when a budget would then break an allocation rule.
-- repeats: to where it is: nothing happens.
create or replace function budget.move_scope(p_org text, p_kind text, p_name text, p_parent_kind text, p_parent_name text)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_unit record;
  v_parent record;
  v_unit_ids bigint[];
  v_height integer;
  v_project_id bigint;
  v_keys bigint;
  v_broken text[];
begin
  if p_kind is distinct from 'unit' then
    perform budget_internal.fail(
      'LB101', format('kind must be unit, not %s', coalesce(to_json(left(p_kind, 40))::text, 'null')),
      'Units are what can be moved; a key is moved by budget.move_key.'
    );
  end if;
  v_unit := budget_internal.lock_scope(p_org, p_kind, p_name, array['unit']);
  v_parent := budget_internal.unit_parent(v_unit.org_id, p_parent_kind, p_parent_name);
  select array_agg(u.unit_id), max(u.level) filter (where not u.deleted) into v_unit_ids, v_height
  from budget_internal.units_beneath(v_unit.org_id, v_unit.scope_id) u;

  if v_parent.parent_id = any (v_unit_ids) then
    perform budget_internal.fail('LB101', format('parent_name %s is beneath the unit that is moved', to_json(p_parent_name)), '');
  end if;
  if v_parent.depth + v_height > 4 then
    perform budget_internal.fail('LB101', format(
      'parent_name %s is %s units deep and %s levels would come under it; at most four units can be', to_json(p_parent_name),
      v_parent.depth, v_height
    ), '');
  end if;
  v_project_id := (budget_internal.unit_place(v_unit.org_id, v_unit.scope_id)).project_id;
  select count(*) into v_keys
  from budget_internal.keys k
  join budget_internal.scopes s on s.scope_id = k.key_id and s.deleted_at is null
  where k.unit_id = any (v_unit_ids);
  if v_project_id <> v_parent.project_id and v_keys > 0 then
    perform budget_internal.fail('LB101', format(
      'parent_name %s is in another project, and the unit has %s beneath it; a key stays in its project', to_json(p_parent_name),
      case v_keys when 1 then '1 key' else v_keys || ' keys' end
    ), 'Move the keys out first, with budget.move_key.');
  end if;

  v_broken := budget_internal.allocation_state(v_unit.org_id, v_unit.scope_id, v_parent.parent_id);
  update budget_internal.scopes s
  set parent_id = v_parent.parent_id
  where s.scope_id = v_unit.scope_id and s.parent_id <> v_parent.parent_id;
  perform budget_internal.refresh_chains(v_unit.org_id, array(
    select k.key_id from budget_internal.keys k where k.unit_id = any (v_unit_ids)
  ));
  perform budget_internal.check_allocation(v_broken, v_unit.org_id, v_unit.scope_id);
end
$$;
comment on function budget.move_scope(text, text, text, text, text) is
  'Move a unit and all beneath it under another unit or project of its org; past spend stays. LB101 on bad input, LB109 '
  'against an allocation rule.';
revoke all on function budget.move_scope(text, text, text, text, text) from public;
grant execute on function budget.move_scope(text, text, text, text, text) to budget_admin;
