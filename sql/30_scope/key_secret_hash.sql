-- budget_internal.key_secret_hash: the stored form of a key as a caller gives it: the secret, or sha256:<hex> of it.
-- Keys are 256 random bits, so a plain hash cannot be searched. Stable, as convert_to is: so it is inlined.
create or replace function budget_internal.key_secret_hash(p_key text) returns bytea
language sql stable parallel safe
as $$
  select case
    when p_key ~ '^sha256:[0-9a-f]{64}$' then decode(substr(p_key, 8), 'hex')
    else sha256(convert_to(p_key, 'UTF8'))
  end
$$;
revoke all on function budget_internal.key_secret_hash(text) from public;
comment on function budget_internal.key_secret_hash(text) is 'Hash of a key secret.';
