-- budget_internal.insert_secret: a new secret of a key. Only its hash is kept, so this is the one time that it is known.
create or replace function budget_internal.insert_secret(p_org_id bigint, p_key_id bigint) returns text
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  -- 244 random bits from the server's strong generator; the digest spreads them over 256.
  v_secret text := 'pgb_' || encode(sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 'hex');
begin
  insert into budget_internal.key_secrets (org_id, key_id, secret_hash, last_four, created_at)
  values (p_org_id, p_key_id, budget_internal.key_secret_hash(v_secret), right(v_secret, 4), budget_internal.clock());
  return v_secret;
end
$$;
revoke all on function budget_internal.insert_secret(bigint, bigint) from public;
comment on function budget_internal.insert_secret(bigint, bigint) is 'Make a secret for a key and return it.';
