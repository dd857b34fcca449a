-- budget_internal.unit_parent: what a unit is put under: its scope, the project that is in, and how deep it is (0: a project).
-- errors: LB101 a kind that has no units, an unknown name.
create or replace function budget_internal.unit_parent(
  p_org_id bigint, p_parent_kind text, p_parent_name text, out parent_id bigint, out project_id bigint, out depth integer
)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_parent_kind is null or p_parent_kind not in ('project', 'unit') then
    perform budget_internal.fail(
      'LB101', format('parent_kind must be project or unit, not %s', coalesce(to_json(left(p_parent_kind, 40))::text, 'null')),
      'A unit is under a project or under another unit.'
    );
  end if;
  parent_id := budget_internal.find_scope(p_org_id, p_parent_kind, p_parent_name);
  if p_parent_kind = 'project' then
    project_id := parent_id;
    depth := 0;
  else
    select u.project_id, u.depth into project_id, depth from budget_internal.unit_place(p_org_id, parent_id) u;
  end if;
end
$$;
revoke all on function budget_internal.unit_parent(bigint, text, text) from public;
comment on function budget_internal.unit_parent(bigint, text, text) is 'Resolve the parent of a unit; LB101 when it cannot be one.';
