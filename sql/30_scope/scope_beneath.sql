-- budget_internal.scope_beneath: what keeps a scope from being deleted, in words: "2 units and 1 key"; null when nothing does.
create or replace function budget_internal.scope_beneath(p_org_id bigint, p_kind text, p_scope_id bigint) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  with beneath as (
    select s.kind::text as kind
    from budget_internal.scopes s
    where s.org_id = p_org_id and s.deleted_at is null and s.kind <> 'run' and s.scope_id <> p_scope_id
      and (p_kind = 'org' or (p_kind in ('project', 'unit') and s.kind = 'unit' and s.parent_id = p_scope_id))
    union all
    select 'key'
    from budget_internal.keys k
    join budget_internal.scopes s on s.scope_id = k.key_id and s.deleted_at is null
    where case p_kind
      when 'project' then k.project_id = p_scope_id
      when 'unit' then k.unit_id = p_scope_id
      when 'member' then k.member_id = p_scope_id
      when 'tag' then exists (select 1 from budget_internal.key_tags t where t.key_id = k.key_id and t.tag_id = p_scope_id)
      else false
    end
    union all
    select 'route' from budget_internal.routes r where p_kind = 'account' and r.account_id = p_scope_id
  ), counted as (
    select b.kind, format('%s %s%s', count(*), b.kind, case when count(*) > 1 then 's' end) as words from beneath b group by b.kind
  )
  select string_agg(c.words, ' and ' order by c.kind) from counted c
$$;
revoke all on function budget_internal.scope_beneath(bigint, text, bigint) from public;
comment on function budget_internal.scope_beneath(bigint, text, bigint) is 'What is under a scope, counted, in words; null: nothing.';
