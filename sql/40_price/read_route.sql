-- budget_internal.read_route: one route of a plan as its row, without an org; an account that is not there yet is made.
-- errors: LB101 names the route by its place.
create or replace function budget_internal.read_route(p_route jsonb, p_place bigint, p_model text) returns budget_internal.routes
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_field text := format('route %s', p_place);
  v_named jsonb;
  v_account text;
  v_route budget_internal.routes;
begin
  perform budget_internal.check_options(v_field, p_route, array['provider', 'account', 'upstream_model', 'priority', 'weight']);
  select jsonb_object_agg(v_field || ' ' || m.key, m.value) into v_named from jsonb_each(p_route) m where m.value <> 'null';
  perform budget_internal.check_setting(v_field || ' ' || m.key, m.value, 1000000)
  from jsonb_each(p_route) m
  where m.key in ('priority', 'weight');
  v_route.model := p_model;
  v_route.provider := budget_internal.option_name(v_named, v_field || ' provider');
  v_route.upstream_model := coalesce(budget_internal.option_name(v_named, v_field || ' upstream_model'), p_model);
  v_route.priority := coalesce(budget_internal.option_bigint(v_named, v_field || ' priority'), 1);
  v_route.weight := coalesce(budget_internal.option_bigint(v_named, v_field || ' weight'), 1);
  v_account := budget_internal.option_name(v_named, v_field || ' account');
  if v_route.provider is null or v_account is null then
    perform budget_internal.fail(
      'LB101', format('%s %s is missing', v_field, case when v_route.provider is null then 'provider' else 'account' end), ''
    );
  end if;
  insert into budget_internal.scopes (org_id, kind, name, created_at)
  values (0, 'account', v_account, budget_internal.clock())
  on conflict (org_id, kind, name) where deleted_at is null and kind <> 'run' do nothing;
  v_route.account_id := budget_internal.find_scope(0, 'account', v_account);
  return v_route;
end
$$;
revoke all on function budget_internal.read_route(jsonb, bigint, text) from public;
comment on function budget_internal.read_route(jsonb, bigint, text) is 'Validate one route of a plan; LB101 names its place.';
