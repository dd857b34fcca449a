-- budget.usd: nano-USD as people read it.
create or replace function budget.usd(p_nano_usd numeric) returns numeric
language sql immutable parallel safe
as $$ select pg_catalog.trim_scale(p_nano_usd operator(pg_catalog./) 1000000000::pg_catalog.numeric(19, 9)) $$;
comment on function budget.usd(numeric) is 'Nano-USD to USD, exact.';
revoke all on function budget.usd(numeric) from public;
grant execute on function budget.usd(numeric) to budget_gateway, budget_reader, budget_admin, budget_reconciler;
