-- budget.end_run: end a run and the runs carved from it. What they have not spent goes back to the parent run; calls that still
-- run keep their holds and settle as usual. No further call of the run is admitted.
-- locks:   the periods of the run, all runs below and all above it, in one statement.
-- errors:  LB101 unknown run, LB102 bad key, LB105 isolation, LB305 a run was carved meanwhile.
-- repeats: an ended run is returned as it ended.
create or replace function budget.end_run(p_key text, p_run text) returns budget.run_result
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_key_id bigint := budget_internal.usable_key(p_key);
  v_run_id bigint;
  v_below bigint[];
  v_now timestamptz;
begin
  perform budget_internal.require_read_committed();
  v_run_id := budget_internal.find_run(v_key_id, p_run);
  if v_run_id is null then
    perform budget_internal.fail('LB101', format('there is no run %s of this key', to_json(left(p_run, 200))), '');
  end if;
  v_below := budget_internal.runs_below(v_run_id);
  perform budget_internal.take_locks(array(
    select p.lock_key
    from budget_internal.runs r
    join budget_internal.periods p on p.budget_id = r.budget_id
    where r.run_id = any (v_below)
    union all
    select p.lock_key
    from budget_internal.periods p
    where p.period_id = any (budget_internal.parent_run_periods(v_run_id))
  ));
  if budget_internal.runs_below(v_run_id) <> v_below then
    perform budget_internal.fail('LB305', format('a run was carved from %s just now', to_json(p_run)), 'End it again.');
  end if;

  v_now := budget_internal.clock();
  update budget_internal.runs r set ended_at = v_now where r.run_id = any (v_below) and r.ended_at is null;
  if found then
    -- Out of the way of every chain; under the lock, so a call that waits for it is refused.
    update budget_internal.budgets b
    set deleted_at = v_now, changed_at = v_now
    from budget_internal.runs r
    where r.run_id = any (v_below) and b.budget_id = r.budget_id and b.deleted_at is null;
    perform budget_internal.shrink_carves(v_below);
  end if;
  return budget_internal.run_result(v_run_id, 'ended', null, null);
end
$$;
comment on function budget.end_run(text, text) is
  'End a run; what it has left goes back to its parent. Returns how it stands, in nano-USD. LB101 unknown run, LB102 bad key.';
revoke all on function budget.end_run(text, text) from public;
grant execute on function budget.end_run(text, text) to budget_gateway, budget_admin;
