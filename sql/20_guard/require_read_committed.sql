-- budget_internal.require_read_committed: the first line of everything that takes locks.
-- In REPEATABLE READ the read after the lock still sees the snapshot from before it, and overspends without a sign.
create or replace function budget_internal.require_read_committed() returns void
language plpgsql stable
as $$
begin
  if pg_catalog.current_setting('transaction_isolation') operator(pg_catalog.<>) 'read committed' then
    perform budget_internal.fail(
      'LB105',
      pg_catalog.format('isolation level %s cannot hold budgets', pg_catalog.current_setting('transaction_isolation')),
      'Call this function in a READ COMMITTED transaction.'
    );
  end if;
end
$$;
revoke all on function budget_internal.require_read_committed() from public;
comment on function budget_internal.require_read_committed() is 'LB105 unless the transaction is READ COMMITTED.';
