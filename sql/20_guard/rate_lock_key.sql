-- budget_internal.rate_lock_key: the advisory lock that stands for the rate window of a key or project.
create or replace function budget_internal.rate_lock_key(p_scope_id bigint) returns bigint
language sql immutable parallel safe
as $$ select pg_catalog.hashint8extended(p_scope_id, -1) $$;
revoke all on function budget_internal.rate_lock_key(bigint) from public;
comment on function budget_internal.rate_lock_key(bigint) is 'Advisory lock key of a rate window.';
