-- budget.set_ladder: what to try, in order, when a request of a key, project or org does not fit as it was asked for; acts on
-- the next request. Replaces the ladder there was; an empty array removes it.
-- rungs:  [{"name": "cheaper", "model": "t-mini"}, {"name": "short", "max_output_tokens": 500},
--          {"name": "plain", "features_off": ["web_search"]}, {"name": "wait", "wait_seconds": 5}, {"name": "stop", "refuse": true}]
--         The changes of one rung go together; refuse is the last.
-- locks:  the org.
-- errors: LB101 unknown scope, more than ten rungs, a bad rung, a name twice.
create or replace function budget.set_ladder(p_org text, p_kind text, p_name text, p_rungs jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_scope record;
  v_rungs budget_internal.rungs[];
  v_name text;
begin
  v_scope := budget_internal.lock_scope(p_org, p_kind, p_name, array['key', 'project', 'org']);
  if p_rungs is null or jsonb_typeof(p_rungs) <> 'array' or jsonb_array_length(p_rungs) > 10 then
    perform budget_internal.fail('LB101', 'rungs must be an array of at most ten rungs', '');
  end if;
  v_rungs := array(
    select budget_internal.read_rung(r.value, r.ordinality::integer)
    from jsonb_array_elements(p_rungs) with ordinality r
    order by r.ordinality
  );
  select r.name into v_name from unnest(v_rungs) r group by r.name having count(*) > 1 order by r.name limit 1;
  if v_name is not null then
    perform budget_internal.fail('LB101', format('rungs have the name %s twice', to_json(v_name)), '');
  end if;
  if exists (select 1 from unnest(v_rungs) r where r.action = 'refuse' and r.place < cardinality(v_rungs)) then
    perform budget_internal.fail('LB101', 'rungs after one that refuses are never tried; refuse must be the last', '');
  end if;

  delete from budget_internal.rungs r where r.scope_id = v_scope.scope_id;
  insert into budget_internal.rungs (
    org_id, scope_id, place, name, action, model, max_output_tokens, features_off, wait_seconds
  )
  select v_scope.org_id, v_scope.scope_id, r.place, r.name, r.action, r.model, r.max_output_tokens, r.features_off, r.wait_seconds
  from unnest(v_rungs) r;
end
$$;
comment on function budget.set_ladder(text, text, text, jsonb) is
  'Set the ladder of a key, project or org: at most ten rungs in order, each with a name and model, max_output_tokens, '
  'features_off, or wait_seconds, or refuse. An empty array removes it. LB101 on bad input.';
revoke all on function budget.set_ladder(text, text, text, jsonb) from public;
grant execute on function budget.set_ladder(text, text, text, jsonb) to budget_admin;
