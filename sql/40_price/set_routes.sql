-- budget.set_routes: where a model name leads, for one org or (p_org null) for all that have none of their own. Routes of the
-- lowest priority number share the calls by weight; the others are for when those fail.
-- routes:  [{"provider": "openai", "account": "main", "upstream_model": "gpt-x", "priority": 1, "weight": 3}, ...]; the upstream
--          model is the name itself, priority and weight are 1 by default. An empty array removes the routes.
-- locks:   the installation, whose accounts they use, then the org.
-- errors:  LB101 unknown org, bad model, more than 16 routes, a bad route, one twice.
-- repeats: replaces the routes of that name. Calls that run keep the route they were granted.
create or replace function budget.set_routes(p_org text, p_model text, p_routes jsonb) returns bigint[]
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_org_id bigint := budget_internal.find_org(p_org);
  v_routes budget_internal.routes[];
  v_route_ids bigint[];
begin
  perform budget_internal.lock_org(0);
  if v_org_id <> 0 then
    perform budget_internal.lock_org(v_org_id);
  end if;
  perform budget_internal.check_name('model', p_model);
  if p_routes is null or jsonb_typeof(p_routes) <> 'array' or jsonb_array_length(p_routes) > 16 then
    perform budget_internal.fail('LB101', 'routes must be an array of at most 16 routes', '');
  end if;
  v_routes := array(
    select budget_internal.read_route(r.value, r.ordinality, p_model)
    from jsonb_array_elements(p_routes) with ordinality r
    order by r.ordinality
  );
  if exists (
    select 1 from unnest(v_routes) r group by r.priority, r.account_id, r.upstream_model having count(*) > 1
  ) then
    perform budget_internal.fail('LB101', 'routes have the same account and upstream_model twice at one priority', 'Use weight.');
  end if;

  delete from budget_internal.routes r where r.org_id = v_org_id and r.model = p_model;
  with made as (
    insert into budget_internal.routes (org_id, model, provider, upstream_model, account_id, priority, weight)
    select v_org_id, r.model, r.provider, r.upstream_model, r.account_id, r.priority, r.weight
    from unnest(v_routes) with ordinality r
    order by r.ordinality
    returning route_id
  )
  select array_agg(m.route_id order by m.route_id) into v_route_ids from made m;
  return coalesce(v_route_ids, '{}');
end
$$;
comment on function budget.set_routes(text, text, jsonb) is
  'Set all routes of a model name: provider, account, upstream_model, priority, weight; at most 16, an empty array removes '
  'them. Returns the route ids. LB101 on bad input.';
revoke all on function budget.set_routes(text, text, jsonb) from public;
grant execute on function budget.set_routes(text, text, jsonb) to budget_admin;
