-- budget_internal.lock_scope: a scope by org, kind and name, with the tree of its org locked. An account belongs to the
-- installation; an org is named by p_name, and p_org may repeat that or be null.
-- locks:  the org, see lock_org.
-- errors: LB101 unknown org, kind or scope; a kind that p_kinds does not list.
create or replace function budget_internal.lock_scope(
  p_org text, p_kind text, p_name text, p_kinds text[], out org_id bigint, out scope_id bigint
)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_kind is null or p_kind <> all (p_kinds) then
    perform budget_internal.fail('LB101', format(
      'kind must be one of %s, not %s', array_to_string(p_kinds, ', '), coalesce(to_json(left(p_kind, 40))::text, 'null')
    ), '');
  end if;
  if p_kind = 'org' and p_org <> p_name then
    perform budget_internal.fail('LB101', 'org must be the name of the org itself, or null', '');
  elsif p_kind = 'account' and p_org is not null then
    perform budget_internal.fail('LB101', 'org must be null: an account belongs to the installation', '');
  end if;
  org_id := case when p_kind = 'account' then 0 else budget_internal.find_org(coalesce(case when p_kind = 'org' then p_name else p_org end, '')) end;
  perform budget_internal.lock_org(org_id);
  scope_id := budget_internal.find_scope(org_id, p_kind, p_name);
end
$$;
revoke all on function budget_internal.lock_scope(text, text, text, text[]) from public;
comment on function budget_internal.lock_scope(text, text, text, text[]) is 'Find a scope and lock the tree of its org; LB101 when unknown.';
