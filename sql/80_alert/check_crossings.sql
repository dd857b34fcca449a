-- budget_internal.check_crossings: what no settlement tells: a limit that was lowered below what is spent, a raise that is over,
-- thresholds that were changed. For the schedule. Candidates are picked without locks and judged again under them.
-- locks:   those of the periods with something to tell, at most p_limit, that are free: it waits for none, so it may run after
--          whatever has taken other locks. A period that is not free is being settled, which tells by itself; or the next time.
create or replace function budget_internal.check_crossings(p_limit integer default 100) returns integer
language plpgsql volatile
as $$
declare
  v_now timestamptz := budget_internal.clock();
  v_period_ids bigint[] := array(
    select p.period_id
    from budget_internal.periods p
    where p.starts_at <= v_now and p.ends_at > v_now and p.spent_nano_usd > 0
  );
begin
  v_period_ids := array(
    select distinct c.period_id
    from budget_internal.crossing_changes(v_period_ids, array_fill(0::bigint, array[cardinality(v_period_ids)]), v_now) c
    order by c.period_id
    limit p_limit
  );
  if cardinality(v_period_ids) = 0 then
    return 0;
  end if;
  v_period_ids := array(
    select f.period_id
    from (select p.period_id, p.lock_key from budget_internal.periods p where p.period_id = any (v_period_ids) offset 0) f
    where pg_try_advisory_xact_lock(f.lock_key)
  );
  return budget_internal.record_crossings(
    v_period_ids, array_fill(0::bigint, array[cardinality(v_period_ids)]), budget_internal.clock()
  );
end
$$;
revoke all on function budget_internal.check_crossings(integer) from public;
comment on function budget_internal.check_crossings(integer) is
  'Record crossings that a change of budgets made; returns how many.';
