-- budget.set_route: where a model name leads, for one org or (p_org null) for all that have none of their own.
-- repeats: replaces the route of that name. Calls that run keep the route they were granted.
create or replace function budget.set_route(
  p_org text, p_model text, p_provider text, p_account text, p_upstream_model text default null
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_org_id bigint := budget_internal.find_org(p_org);
  v_upstream text := coalesce(p_upstream_model, p_model);
  v_account_id bigint;
  v_route_id bigint;
begin
  perform budget_internal.check_name('model', p_model);
  perform budget_internal.check_name('upstream model', v_upstream);
  perform budget_internal.check_name('provider', p_provider);
  perform budget_internal.check_name('account', p_account);
  insert into budget_internal.scopes (org_id, kind, name, created_at)
  values (0, 'account', p_account, budget_internal.clock())
  on conflict (org_id, kind, name) where deleted_at is null and kind <> 'run' do nothing;
  v_account_id := budget_internal.find_scope(0, 'account', p_account);
  delete from budget_internal.routes r where r.org_id = v_org_id and r.model = p_model;
  insert into budget_internal.routes (org_id, model, provider, upstream_model, account_id)
  values (v_org_id, p_model, p_provider, v_upstream, v_account_id)
  returning route_id into v_route_id;
  return v_route_id;
end
$$;
comment on function budget.set_route(text, text, text, text, text) is
  'Route a model name to a provider, an account and an upstream model. Returns the route id. LB101 on bad input.';
revoke all on function budget.set_route(text, text, text, text, text) from public;
grant execute on function budget.set_route(text, text, text, text, text) to budget_admin;
