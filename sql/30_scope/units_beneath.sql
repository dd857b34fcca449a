-- budget_internal.units_beneath: a unit (level 1) and all units under it, the deleted ones too: their keys keep a chain.
create or replace function budget_internal.units_beneath(p_org_id bigint, p_unit_id bigint)
returns table (unit_id bigint, level integer, deleted boolean)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  with recursive beneath as (
    select s.scope_id, 1 as level, s.deleted_at
    from budget_internal.scopes s
    where s.scope_id = p_unit_id and s.org_id = p_org_id
    union all
    select s.scope_id, b.level + 1, s.deleted_at
    from beneath b
    join budget_internal.scopes s on s.parent_id = b.scope_id and s.org_id = p_org_id and s.kind = 'unit'
    where b.level < 100
  )
  select b.scope_id, b.level, b.deleted_at is not null from beneath b
$$;
revoke all on function budget_internal.units_beneath(bigint, bigint) from public;
comment on function budget_internal.units_beneath(bigint, bigint) is 'A unit and the units under it.';
