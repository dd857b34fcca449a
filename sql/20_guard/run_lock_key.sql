-- budget_internal.run_lock_key: the advisory lock that stands for a run, its budget and its only period. Known by key and
-- name, so that the calls that make a run between them meet before it exists.
create or replace function budget_internal.run_lock_key(p_key_id bigint, p_name text) returns bigint
language sql immutable parallel safe
as $$ select pg_catalog.hashtextextended('run ' operator(pg_catalog.||) p_name, p_key_id) $$;
revoke all on function budget_internal.run_lock_key(bigint, text) from public;
comment on function budget_internal.run_lock_key(bigint, text) is 'Advisory lock key of a run.';
