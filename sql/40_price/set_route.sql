-- budget.set_route: one route for a model name, for one org or (p_org null) for all that have none of their own. See set_routes.
-- repeats: replaces the routes of that name. Calls that run keep the route they were granted.
create or replace function budget.set_route(
  p_org text, p_model text, p_provider text, p_account text, p_upstream_model text default null
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return (budget.set_routes(p_org, p_model, jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
    'provider', p_provider, 'account', p_account, 'upstream_model', p_upstream_model
  )))))[1];
end
$$;
comment on function budget.set_route(text, text, text, text, text) is
  'Route a model name to a provider, an account and an upstream model. Returns the route id. LB101 on bad input.';
revoke all on function budget.set_route(text, text, text, text, text) from public;
grant execute on function budget.set_route(text, text, text, text, text) to budget_admin;
