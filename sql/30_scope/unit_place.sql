-- budget_internal.unit_place: the project of a unit, and how many units deep it is (1: right under the project).
create or replace function budget_internal.unit_place(p_org_id bigint, p_unit_id bigint, out project_id bigint, out depth integer)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  with recursive above as (
    select s.scope_id, s.parent_id, s.kind, 0 as level
    from budget_internal.scopes s
    where s.scope_id = p_unit_id and s.org_id = p_org_id
    union all
    select s.scope_id, s.parent_id, s.kind, a.level + 1
    from above a
    join budget_internal.scopes s on s.scope_id = a.parent_id and s.org_id = p_org_id
    where a.kind = 'unit' and a.level < 100
  )
  select a.scope_id, a.level from above a where a.kind = 'project'
$$;
revoke all on function budget_internal.unit_place(bigint, bigint) from public;
comment on function budget_internal.unit_place(bigint, bigint) is 'Project and depth of a unit.';
