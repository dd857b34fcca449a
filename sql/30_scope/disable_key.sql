-- budget.disable_key: refuse a key from the next request on. Its running calls settle as usual.
-- locks:   the org.
-- repeats: keep the first time it was disabled.
create or replace function budget.disable_key(p_org text, p_name text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_key record;
begin
  v_key := budget_internal.lock_scope(p_org, 'key', p_name, array['key']);
  update budget_internal.keys k set disabled_at = budget_internal.clock() where k.key_id = v_key.scope_id and k.disabled_at is null;
end
$$;
comment on function budget.disable_key(text, text) is 'Disable a key at once. LB101 when there is no such key.';
revoke all on function budget.disable_key(text, text) from public;
grant execute on function budget.disable_key(text, text) to budget_admin;
