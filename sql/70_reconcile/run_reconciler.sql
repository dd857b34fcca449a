-- budget.run_reconciler: budget.reconcile until nothing is due or the time is up, each batch in a transaction of its own. For
-- pg_cron and psql; not within a transaction, for it commits. A batch holds its budgets' locks until its commit, and live calls wait
-- so long: so batches begin with 20 rows and grow, up to p_limit, only while they take less than 10 ms on this server at this moment,
-- with a pause after each. A batch that cannot get its locks is skipped; after three in a row the rest is left to the next run. Of two at
-- once, one ends at once.
-- Without SET and not SECURITY DEFINER, or it could not commit: it runs with the rights and the search_path of its caller.
create or replace procedure budget.run_reconciler(p_limit integer default 500, p_seconds integer default 50)
language plpgsql
as $$
declare
  v_until constant timestamptz := pg_catalog.clock_timestamp() + pg_catalog.make_interval(secs => p_seconds);
  v_batch budget.reconcile_result;
  v_charged bigint := 0;
  v_failed bigint := 0;
  v_skipped integer := 0;
  v_lost boolean;
  v_size integer := least(p_limit, 20);
  v_begun timestamptz;
  v_took numeric;
begin
  loop
    exit when not pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended('pgbudget reconciler', 0));
    v_begun := pg_catalog.clock_timestamp();
    perform pg_catalog.set_config('lock_timeout', '200ms', true);
    begin
      v_batch := budget.reconcile(v_size);
      v_lost := false;
    exception when lock_not_available or deadlock_detected then
      v_lost := true;
    end;
    commit;
    v_took := extract(epoch from pg_catalog.clock_timestamp() - v_begun);
    v_skipped := case when v_lost then v_skipped + 1 else 0 end;
    if not v_lost then
      v_charged := v_charged + v_batch.charged;
      v_failed := v_failed + v_batch.failed;
      exit when not v_batch.more;
      v_size := case
        when v_took > 0.03 then greatest(v_size / 2, least(p_limit, 20))
        when v_took < 0.01 then least(v_size * 2, p_limit)
        else v_size
      end;
    end if;
    exit when v_skipped = 3 or pg_catalog.clock_timestamp() > v_until;
    perform pg_catalog.pg_sleep(least(v_took, 0.02));
  end loop;
  if v_charged + v_failed + v_skipped > 0 then
    raise notice 'reconciled: % charged, % failed%', v_charged, v_failed, case when v_skipped > 0 then ', the rest is locked' else '' end;
  end if;
end
$$;
comment on procedure budget.run_reconciler(integer, integer) is
  'Work off all stale reservations in small transactions, for at most so many seconds. Not within a transaction.';
revoke all on procedure budget.run_reconciler(integer, integer) from public;
grant execute on procedure budget.run_reconciler(integer, integer) to budget_reconciler, budget_admin;
