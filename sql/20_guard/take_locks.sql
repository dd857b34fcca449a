-- budget_internal.take_locks: every advisory lock of a call, in one statement, in one order.
-- The order is what keeps two calls on overlapping chains from waiting for each other; the statement is separate from
-- every read, because a statement that locks and reads works on the snapshot from before the lock.
create or replace function budget_internal.take_locks(p_lock_keys bigint[]) returns void
language plpgsql volatile
as $$
declare
  v_sorted bigint[] := array(select distinct k from pg_catalog.unnest(p_lock_keys) k order by k);
begin
  perform pg_catalog.pg_advisory_xact_lock(k) from pg_catalog.unnest(v_sorted) k;
end
$$;
revoke all on function budget_internal.take_locks(bigint[]) from public;
comment on function budget_internal.take_locks(bigint[]) is 'Take transaction advisory locks, sorted and once each.';
