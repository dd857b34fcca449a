-- budget.apply_retention: drop one ledger partition whose rows are all older than ledger_retention_days, its sums added to the
-- retired counters of periods and units in the same transaction; and delete old refusal counts and rate windows. The audit log,
-- the periods, open and quarantined reservations stay. A partition a call, so that locks are short; more: call again.
-- What was dropped is not known any more: a late settle of it is LB301, and its request ids are free.
-- locks:  rows of periods, then of unit months, then the ledger, for the moment of the drop. Waits half a second for each, no longer:
--         55P03 then, and nothing has happened. That is before a deadlock would be looked for, so no settlement ever fails for it.
-- errors: LB105 isolation, LB902 a row was booked into the past meanwhile; nothing is dropped.
create or replace function budget.apply_retention(out dropped_partition text, out entries bigint, out more boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '500ms'
as $$
declare
  v_purged bigint;
  v_partitions text[];
  v_entries bigint;
begin
  perform budget_internal.require_read_committed();
  v_purged := budget_internal.purge_windows(10000);
  v_partitions := array(
    select p.partition_name
    from budget_internal.ledger_partitions() p
    where p.ends_at <= budget_internal.clock() - make_interval(days => (
      select y.ledger_retention_days from budget_internal.policies y where y.scope_id = 0
    ))
    order by p.month_on
  );
  more := v_purged >= 10000 or cardinality(v_partitions) > 1;
  dropped_partition := v_partitions[1];
  if dropped_partition is null then
    return;
  end if;

  execute format('select count(*) from budget_internal.%I', dropped_partition) into entries;
  perform budget_internal.retire_entries(dropped_partition);
  lock table budget_internal.ledger_entries in access exclusive mode;
  execute format('select count(*) from budget_internal.%I', dropped_partition) into v_entries;
  if v_entries <> entries then
    perform budget_internal.fail('LB902', format('%s was written to while it was about to be dropped', dropped_partition));
  end if;
  execute format('drop table budget_internal.%I', dropped_partition);
  perform budget_internal.audit_event(
    0, 'ledger partition ' || dropped_partition, jsonb_build_object('entries', entries), jsonb_build_object('dropped', true)
  );
end
$$;
comment on function budget.apply_retention() is
  'Drop the oldest ledger partition that is past ledger_retention_days, if there is one, and delete old refusal counts; more says '
  'whether to call again. 55P03: it could not get its locks, and nothing happened.';
revoke all on function budget.apply_retention() from public;
grant execute on function budget.apply_retention() to budget_reconciler, budget_admin;
