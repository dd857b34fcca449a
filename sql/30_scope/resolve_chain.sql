-- budget_internal.resolve_chain: the scopes of a key in chain order: key, tags by name, member, its unit and the units
-- above it, project, org. The run comes before them and the account after them, both known only by the request.
create or replace function budget_internal.resolve_chain(p_org_id bigint, p_key_id bigint) returns bigint[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  with recursive unit as (
    select s.scope_id, s.parent_id, s.kind, 1 as level
    from budget_internal.keys k
    join budget_internal.scopes s on s.scope_id = k.unit_id and s.org_id = k.org_id
    where k.key_id = p_key_id and k.org_id = p_org_id
    union all
    -- The level stops a cycle; a tree deeper than four units is refused by the chain check.
    select s.scope_id, s.parent_id, s.kind, u.level + 1
    from unit u
    join budget_internal.scopes s on s.scope_id = u.parent_id and s.org_id = p_org_id
    where s.kind = 'unit' and u.level < 6
  ), link as (
    select 1 as place, 0 as level, '' as name, p_key_id as scope_id
    union all
    select 2, 0, s.name, t.tag_id
    from budget_internal.key_tags t
    join budget_internal.scopes s on s.scope_id = t.tag_id and s.org_id = t.org_id
    where t.key_id = p_key_id and t.org_id = p_org_id
    union all
    select 3, 0, '', k.member_id from budget_internal.keys k
    where k.key_id = p_key_id and k.org_id = p_org_id and k.member_id is not null
    union all
    select 4, u.level, '', u.scope_id from unit u
    union all
    select 5, 0, '', k.project_id from budget_internal.keys k where k.key_id = p_key_id and k.org_id = p_org_id
    union all
    select 6, 0, '', p_org_id
  )
  select array_agg(scope_id order by place, level, name) from link
$$;
revoke all on function budget_internal.resolve_chain(bigint, bigint) from public;
comment on function budget_internal.resolve_chain(bigint, bigint) is 'Scope ids of a key in chain order.';
