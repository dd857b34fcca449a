-- budget.run_schedule: one step of the schedule, for the proxies: a batch of the reconciler; when nothing is due, burn rates, and
-- once a day a step of the upkeep. Any number of proxies may call it: one at a time acts, and none while pg_cron has the schedule.
-- The lock is of the transaction, so PgBouncer may stand between.
-- locks:  an advisory try-lock, the row of the schedule, then those of what it runs; waits for them at most half a second.
-- acted is false: another one is at it, or pg_cron is. more: call again at once.
create or replace function budget.run_schedule(
  p_limit integer default 20,
  out acted boolean, out runner text, out charged integer, out failed integer, out quarantined integer, out more boolean
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '500ms'
as $$
declare
  v_last_run_at timestamptz;
begin
  perform budget_internal.require_read_committed();
  acted := pg_try_advisory_xact_lock(hashtextextended('pgbudget schedule', 0));
  more := false;
  if not acted then
    return;
  end if;
  -- Who switches to pg_cron waits for this step, and after that none begins.
  select s.runner, s.last_run_at into runner, v_last_run_at from budget_internal.schedule s for share;
  acted := runner = 'proxy';
  if not acted then
    return;
  end if;

  select r.charged, r.failed, r.quarantined, r.more into charged, failed, quarantined, more from budget.reconcile(p_limit) r;
  if more then
    return;
  end if;
  begin
    perform budget.check_alerts();
  exception when lock_not_available or deadlock_detected then
    -- The next step tries again.
    null;
  end;
  if v_last_run_at is null or v_last_run_at < budget_internal.clock() - interval '1 day' then
    begin
      more := budget.upkeep_step();
    exception when lock_not_available or deadlock_detected then
      more := false;
    end;
  end if;
end
$$;
comment on function budget.run_schedule(integer) is
  'One step of the schedule for the proxies: reconcile, burn rates, daily upkeep. Does nothing while another one is at it or pg_cron '
  'has the schedule; more says whether to call again at once.';
revoke all on function budget.run_schedule(integer) from public;
grant execute on function budget.run_schedule(integer) to budget_reconciler, budget_admin;
