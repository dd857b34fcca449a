-- budget_internal.scopes_below: the scopes that a scope's budgets stand over: of an org all projects, units, members and keys.
create or replace function budget_internal.scopes_below(p_org_id bigint, p_scope_id bigint) returns setof bigint
language sql stable
as $$
  with recursive inner_scope as (
    select s.scope_id, s.kind
    from budget_internal.scopes s
    where s.scope_id = p_scope_id and s.org_id = p_org_id and s.kind in ('org', 'project', 'unit', 'member')
    union all
    select s.scope_id, s.kind
    from inner_scope i
    join budget_internal.scopes s on s.parent_id = i.scope_id and s.org_id = p_org_id
    where s.kind in ('project', 'unit', 'member') and s.deleted_at is null
  )
  select i.scope_id from inner_scope i where i.scope_id <> p_scope_id
  union all
  -- Every key of a project is in it, whatever its unit. Of an org, its members' keys are those of its projects.
  select k.key_id
  from inner_scope i
  join budget_internal.keys k on k.project_id = i.scope_id and k.org_id = p_org_id
  where i.kind = 'project'
  union all
  select k.key_id
  from budget_internal.keys k
  join inner_scope i on i.scope_id = k.unit_id
  where k.org_id = p_org_id and not exists (select 1 from inner_scope p where p.kind = 'project')
  union all
  select k.key_id
  from budget_internal.keys k
  where k.org_id = p_org_id and k.member_id = p_scope_id
$$;
revoke all on function budget_internal.scopes_below(bigint, bigint) from public;
comment on function budget_internal.scopes_below(bigint, bigint) is 'Descendants of a scope in the tree of allocation rules.';
