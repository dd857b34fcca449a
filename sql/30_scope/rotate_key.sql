-- budget.rotate_key: a new secret for a key, returned this once. The old ones work for the grace time still, by default not at
-- all; a key has at most two secrets that work.
-- locks:   the org.
-- errors:  LB101 unknown key, a grace below 0 or above 366 days, a third secret that would work.
-- repeats: make another secret.
create or replace function budget.rotate_key(p_org text, p_name text, p_grace interval default '0') returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := budget_internal.clock();
  v_key record;
begin
  v_key := budget_internal.lock_scope(p_org, 'key', p_name, array['key']);
  if p_grace is null or p_grace < interval '0' or p_grace > interval '366 days' then
    perform budget_internal.fail('LB101', format('grace must be between 0 and 366 days, not %s', coalesce(p_grace::text, 'null')), '');
  end if;
  if p_grace > interval '0' and (
    select count(*)
    from budget_internal.key_secrets s
    where s.key_id = v_key.scope_id and (s.expires_at is null or s.expires_at > v_now)
  ) > 1 then
    perform budget_internal.fail(
      'LB101', 'grace must be 0 while two secrets of the key work: the last rotation is still in its grace time',
      'Wait until that has passed; a rotation with a grace of 0 ends both at once.'
    );
  end if;
  update budget_internal.key_secrets s
  set expires_at = v_now + p_grace
  where s.key_id = v_key.scope_id and (s.expires_at is null or s.expires_at > v_now + p_grace);
  return budget_internal.insert_secret(v_key.org_id, v_key.scope_id);
end
$$;
comment on function budget.rotate_key(text, text, interval) is
  'Make a new secret for a key and return it; the old one works for p_grace longer. LB101 on bad input.';
revoke all on function budget.rotate_key(text, text, interval) from public;
grant execute on function budget.rotate_key(text, text, interval) to budget_admin;
