-- budget.disable_key: refuse a key from the next request on. Its running calls settle as usual.
-- repeats: keep the first time it was disabled.
create or replace function budget.disable_key(p_org text, p_name text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_key_id bigint := budget_internal.find_scope(budget_internal.find_org(coalesce(p_org, '')), 'key', p_name);
begin
  update budget_internal.keys set disabled_at = coalesce(disabled_at, budget_internal.clock()) where key_id = v_key_id;
end
$$;
comment on function budget.disable_key(text, text) is 'Disable a key at once. LB101 when there is no such key.';
revoke all on function budget.disable_key(text, text) from public;
grant execute on function budget.disable_key(text, text) to budget_admin;
