-- budget.enable_key: let a key that was disabled be used again.
-- locks:   the org.
-- repeats: nothing happens.
create or replace function budget.enable_key(p_org text, p_name text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_key record;
begin
  v_key := budget_internal.lock_scope(p_org, 'key', p_name, array['key']);
  update budget_internal.keys k set disabled_at = null where k.key_id = v_key.scope_id and k.disabled_at is not null;
end
$$;
comment on function budget.enable_key(text, text) is 'Enable a disabled key. LB101 when there is no such key.';
revoke all on function budget.enable_key(text, text) from public;
grant execute on function budget.enable_key(text, text) to budget_admin;
