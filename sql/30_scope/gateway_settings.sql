-- budget.gateway_settings: what a proxy must know to keep its reservations alive: the shortest in force anywhere.
create or replace function budget.gateway_settings(out stale_seconds integer, out heartbeat_seconds integer)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select min(p.stale_seconds), min(p.heartbeat_seconds) from budget_internal.policies p
$$;
comment on function budget.gateway_settings() is 'Stale window and heartbeat interval in seconds, the shortest of all orgs.';
revoke all on function budget.gateway_settings() from public;
grant execute on function budget.gateway_settings() to budget_gateway, budget_admin;
