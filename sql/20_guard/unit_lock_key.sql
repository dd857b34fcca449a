-- budget_internal.unit_lock_key: the advisory lock that stands for the spend of a unit.
create or replace function budget_internal.unit_lock_key(p_unit_id bigint) returns bigint
language sql immutable parallel safe
as $$ select pg_catalog.hashint8extended(p_unit_id, -2) $$;
revoke all on function budget_internal.unit_lock_key(bigint) from public;
comment on function budget_internal.unit_lock_key(bigint) is 'Advisory lock key of a unit''s spend.';
