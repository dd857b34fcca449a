-- budget.upkeep_step: one bounded step of the daily upkeep: ledger partitions for the months ahead, rows of the default partition
-- into their months, retention, drift. Returns whether to call again. Called more often than once a day it finds nothing to do.
-- locks: see empty_default_partition and apply_retention; waits half a second for each (55P03 then).
create or replace function budget.upkeep_step(p_rows integer default 10000) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '500ms'
as $$
declare
  v_more boolean;
begin
  perform budget_internal.require_read_committed();
  v_more := budget_internal.empty_default_partition(p_rows);
  if not v_more then
    begin
      perform budget_internal.ensure_ledger_partitions(12);
    exception
      when lock_not_available then
        -- There are enough ahead for a year; told below if there are not.
        null;
      when check_violation then
        -- Booked into a month without a partition just now.
        v_more := true;
    end;
  end if;
  perform budget_internal.check_partitions();
  if not v_more then
    v_more := (select r.more from budget.apply_retention() r);
  end if;
  if not v_more then
    perform budget_internal.check_drift();
    update budget_internal.schedule set last_run_at = budget_internal.clock();
  end if;
  return v_more;
end
$$;
comment on function budget.upkeep_step(integer) is
  'One step of the daily upkeep: partitions, retention, drift. Returns whether more remains. 55P03: locked, try later.';
revoke all on function budget.upkeep_step(integer) from public;
grant execute on function budget.upkeep_step(integer) to budget_reconciler, budget_admin;
