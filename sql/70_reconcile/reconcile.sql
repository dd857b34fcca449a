-- budget.reconcile: charge a bounded batch of stale reservations their whole hold, and try malformed rows again.
-- Candidates are picked without locks and judged again under them, so newer reservations never wait for the sweep.
-- One malformed row never stops the batch: it keeps its hold, backs off, and is quarantined after the last try. Nor does a
-- budget that somebody keeps locked: with a lock_timeout, what it holds up is left for later.
-- errors: LB101 limit, LB105 isolation.
create or replace function budget.reconcile(p_limit integer default 500) returns budget.reconcile_result
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := budget_internal.clock();
  v_reports jsonb;
  v_result budget.reconcile_result := row(0, 0, 0, false);
  v_ids uuid[];
begin
  perform budget_internal.require_read_committed();
  if p_limit is null or p_limit not between 1 and 10000 then
    perform budget_internal.fail('LB101', 'limit must be a whole number from 1 to 10000', '');
  end if;

  select coalesce(jsonb_agg(budget_internal.stale_report(d)), '[]'), coalesce(array_agg(d.reservation_id), '{}')
  into v_reports, v_ids
  from budget_internal.due_reservations(p_limit, v_now, false) d;
  begin
    select c.charged, c.failed into v_result.charged, v_result.failed from budget_internal.close_due(v_reports) c;
  exception when lock_not_available then
    select coalesce(jsonb_agg(budget_internal.stale_report(d)), '[]'), coalesce(array_agg(d.reservation_id), '{}')
    into v_reports, v_ids
    from budget_internal.due_reservations(p_limit, v_now, true) d;
    select c.charged, c.failed into v_result.charged, v_result.failed from budget_internal.close_due(v_reports) c;
  end;

  select count(*) into v_result.quarantined
  from budget_internal.reservations r
  where r.reservation_id = any (v_ids) and r.reconciliation_quarantined_at is not null;
  v_result.more := cardinality(v_ids) = p_limit;
  return v_result;
end
$$;
comment on function budget.reconcile(integer) is
  'Work off up to so many stale reservations; returns how many ended, failed, were quarantined, and whether more remain.';
revoke all on function budget.reconcile(integer) from public;
grant execute on function budget.reconcile(integer) to budget_reconciler, budget_admin;
