-- budget_internal.usable_key: the id of a key that may be used now, or LB102.
create or replace function budget_internal.usable_key(p_key text) returns bigint
language plpgsql stable
as $$
declare
  v_now timestamptz := budget_internal.clock();
  v_key_id bigint;
  v_disabled_at timestamptz;
  v_expires_at timestamptz;
begin
  select k.key_id, k.disabled_at, least(k.expires_at, s.expires_at) into v_key_id, v_disabled_at, v_expires_at
  from budget_internal.key_secrets s
  join budget_internal.keys k on k.key_id = s.key_id
  join budget_internal.scopes d on d.scope_id = k.key_id and d.deleted_at is null
  where s.secret_hash = budget_internal.key_secret_hash(p_key);
  if v_key_id is null then
    perform budget_internal.fail('LB102', 'this key is not known; check the key that the gateway was called with', 'invalid_key');
  elsif v_disabled_at is not null then
    perform budget_internal.fail('LB102', 'this key is disabled; ask its owner for another', 'key_disabled');
  elsif v_expires_at <= v_now then
    perform budget_internal.fail('LB102', 'this key has expired; ask its owner for another', 'key_expired');
  end if;
  return v_key_id;
end
$$;
revoke all on function budget_internal.usable_key(text) from public;
comment on function budget_internal.usable_key(text) is
  'Key id by secret; LB102 with the code as hint when it is unknown, disabled or expired.';
