-- budget.reconcile: charge a bounded batch of stale reservations their whole hold, and try malformed rows again.
-- Candidates are picked without locks and judged again under them, so newer reservations never wait for the sweep.
-- One malformed row never stops the batch: it keeps its hold, backs off, and is quarantined after the last try.
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
  v_report jsonb;
  v_ended integer;
begin
  perform budget_internal.require_read_committed();
  if p_limit is null or p_limit not between 1 and 10000 then
    perform budget_internal.fail('LB101', 'limit must be a whole number from 1 to 10000', '');
  end if;

  select coalesce(jsonb_agg(budget_internal.stale_report(d)), '[]'), coalesce(array_agg(d.reservation_id), '{}')
  into v_reports, v_ids
  from (
    select r.* from budget_internal.reservations r
    where r.reconciliation_quarantined_at is null and coalesce(r.reconcile_after, r.stale_at) < v_now
    order by coalesce(r.reconcile_after, r.stale_at)
    limit p_limit
  ) d;

  begin
    select count(*) filter (where c.status <> 'deferred'), count(*) filter (where c.status = 'deferred')
    into v_result.charged, v_result.failed
    from budget_internal.close_reservations(v_reports) c;
  exception when others then
    -- Waiting too long, a deadlock, a server going down: no fault of the rows, and no try of theirs.
    if sqlstate !~ '^(22|23|LB)' then
      raise;
    end if;
    -- One row broke the batch in a way that judging did not foresee: row by row, each on its own.
    v_result.charged := 0;
    v_result.failed := 0;
    for v_report in select jsonb_array_elements(v_reports) loop
      begin
        select count(*) filter (where c.status <> 'deferred'), v_result.failed + count(*) filter (where c.status = 'deferred')
        into v_ended, v_result.failed
        from budget_internal.close_reservations(jsonb_build_array(v_report)) c;
        v_result.charged := v_result.charged + v_ended;
      exception when others then
        if sqlstate !~ '^(22|23|LB)' then
          raise;
        end if;
        v_result.failed := v_result.failed + 1;
        perform budget_internal.defer_closures(
          array[row(
            1, (v_report ->> 'reservation_id')::uuid, null, null, null, null, v_report ->> 'outcome', null, null, null, null, sqlstate, null
          )::budget_internal.closure],
          jsonb_build_array(v_report), budget_internal.clock()
        );
      end;
    end loop;
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
