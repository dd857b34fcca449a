-- budget_internal.scopes_above: the scopes whose budgets stand over those of a scope: of a key its unit and the units above it,
-- its project, its member and the org; of nothing outside of the tree (tags, accounts, runs).
create or replace function budget_internal.scopes_above(p_org_id bigint, p_scope_id bigint) returns setof bigint
language sql stable
as $$
  with recursive above as (
    select p_scope_id as scope_id
    union
    select p.scope_id
    from above a
    cross join lateral (
      select s.parent_id
      from budget_internal.scopes s
      where s.scope_id = a.scope_id and s.org_id = p_org_id and s.kind in ('project', 'unit', 'member')
      union all
      select coalesce(k.unit_id, k.project_id) from budget_internal.keys k where k.key_id = a.scope_id and k.org_id = p_org_id
      union all
      select k.member_id from budget_internal.keys k where k.key_id = a.scope_id and k.org_id = p_org_id
    ) p (scope_id)
    where p.scope_id is not null
  )
  select a.scope_id from above a where a.scope_id <> p_scope_id
$$;
revoke all on function budget_internal.scopes_above(bigint, bigint) from public;
comment on function budget_internal.scopes_above(bigint, bigint) is 'Ancestors of a scope in the tree of allocation rules.';
