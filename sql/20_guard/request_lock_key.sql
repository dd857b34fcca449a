-- budget_internal.request_lock_key: the advisory lock that stands for one request id of one key.
create or replace function budget_internal.request_lock_key(p_key_id bigint, p_request_id text) returns bigint
language sql immutable parallel safe
as $$ select pg_catalog.hashtextextended(p_request_id, p_key_id) $$;
revoke all on function budget_internal.request_lock_key(bigint, text) from public;
comment on function budget_internal.request_lock_key(bigint, text) is 'Advisory lock key of a request id.';
