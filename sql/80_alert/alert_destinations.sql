-- budget.alert_destinations: where alerts go, as the gateways have said.
create or replace function budget.alert_destinations() returns text[]
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$ select coalesce(array_agg(d.destination order by d.destination), '{}') from budget_internal.alert_destinations d $$;
comment on function budget.alert_destinations() is 'Names of the destinations that alerts go to.';
revoke all on function budget.alert_destinations() from public;
grant execute on function budget.alert_destinations() to budget_reader, budget_admin, budget_reconciler;
