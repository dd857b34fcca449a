-- budget_internal.place_key: put a key where a placement says (project, unit, member, tags; what is not named stays, null takes
-- away) and write its chain. Call it with the org locked.
-- errors: LB101 unknown scope, a unit outside of the key's project, a key without a project.
create or replace function budget_internal.place_key(p_org_id bigint, p_key_id bigint, p_placement jsonb) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_key budget_internal.keys;
  v_name text;
  v_tag_ids bigint[];
begin
  select k.* into strict v_key from budget_internal.keys k where k.key_id = p_key_id and k.org_id = p_org_id for no key update;
  if p_placement ? 'project' then
    v_name := budget_internal.option_name(p_placement, 'project');
    if v_name is null then
      perform budget_internal.fail('LB101', 'project must be a name: a key is always in a project', '');
    end if;
    v_key.project_id := budget_internal.find_scope(p_org_id, 'project', v_name);
  end if;
  if p_placement ? 'unit' then
    v_name := budget_internal.option_name(p_placement, 'unit');
    v_key.unit_id := case when v_name is not null then budget_internal.find_scope(p_org_id, 'unit', v_name) end;
  end if;
  if p_placement ? 'member' then
    v_name := budget_internal.option_name(p_placement, 'member');
    v_key.member_id := case when v_name is not null then budget_internal.find_scope(p_org_id, 'member', v_name) end;
  end if;
  if (budget_internal.unit_place(p_org_id, v_key.unit_id)).project_id <> v_key.project_id then
    perform budget_internal.fail(
      'LB101', 'unit is in another project than the key', 'Name a unit of the key''s project, or null for none.'
    );
  end if;

  update budget_internal.keys k
  set project_id = v_key.project_id, unit_id = v_key.unit_id, member_id = v_key.member_id
  where k.key_id = p_key_id and k.org_id = p_org_id
    and (k.project_id, k.unit_id, k.member_id) is distinct from (v_key.project_id, v_key.unit_id, v_key.member_id);
  update budget_internal.scopes s
  set parent_id = v_key.project_id
  where s.scope_id = p_key_id and s.org_id = p_org_id and s.parent_id <> v_key.project_id;

  if p_placement ? 'tags' then
    v_tag_ids := array(
      select budget_internal.find_scope(p_org_id, 'tag', t) from unnest(budget_internal.option_names(p_placement, 'tags', 20)) t
    );
    delete from budget_internal.key_tags t where t.key_id = p_key_id and t.org_id = p_org_id and t.tag_id <> all (v_tag_ids);
    insert into budget_internal.key_tags (org_id, key_id, tag_id)
    select p_org_id, p_key_id, i.tag_id from unnest(v_tag_ids) i (tag_id)
    on conflict do nothing;
  end if;
  perform budget_internal.refresh_chains(p_org_id, array[p_key_id]);
end
$$;
revoke all on function budget_internal.place_key(bigint, bigint, jsonb) from public;
comment on function budget_internal.place_key(bigint, bigint, jsonb) is 'Place a key in the tree and write its chain; LB101 names the member.';
