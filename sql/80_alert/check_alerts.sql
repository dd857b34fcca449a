-- budget.check_alerts: what is to be told without any call being settled: limits lowered below what is spent, and budgets that
-- are spent too fast. For the schedule, once a minute; run by more than one at a time, all but the first do nothing.
-- errors: LB105 isolation. repeats: tells nothing twice.
create or replace function budget.check_alerts(out crossings integer, out burn_rates integer)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
  perform budget_internal.require_read_committed();
  crossings := 0;
  burn_rates := 0;
  if pg_try_advisory_xact_lock(hashtextextended('pgbudget check_alerts', 0)) then
    burn_rates := budget_internal.check_burn_rates();
    crossings := budget_internal.check_crossings();
  end if;
end
$$;
comment on function budget.check_alerts() is
  'Put alerts into the outbox for limits that were lowered below what is spent and for budgets that are spent too fast; returns '
  'how many of each. For the schedule.';
revoke all on function budget.check_alerts() from public;
grant execute on function budget.check_alerts() to budget_reconciler, budget_admin;
