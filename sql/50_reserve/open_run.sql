-- budget_internal.open_run: make a run: its scope, its budget for its whole life, and the one period of that.
-- Called under the lock of the run, which is the lock of its period.
create or replace function budget_internal.open_run(
  p_org_id bigint, p_key_id bigint, p_name text, p_limit_nano_usd bigint, p_max_grants bigint, p_parent_run_id bigint,
  p_now timestamptz, out run_id bigint, out budget_id bigint, out period_id bigint
)
language plpgsql volatile
as $$
begin
  insert into budget_internal.scopes as s (org_id, kind, name, parent_id, created_at)
  values (p_org_id, 'run', p_name, p_key_id, p_now)
  returning s.scope_id into run_id;
  insert into budget_internal.budgets as b (
    org_id, scope_id, name, limit_nano_usd, max_grants, enforcement, period, anchor_at, time_zone, thresholds, created_at,
    changed_at
  ) values (
    p_org_id, run_id, 'run', p_limit_nano_usd, p_max_grants, 'strict', 'total', date_trunc('second', p_now), 'UTC', '{}',
    p_now, p_now
  ) returning b.budget_id into budget_id;
  insert into budget_internal.periods as p (org_id, budget_id, starts_at, ends_at, lock_key)
  values (p_org_id, budget_id, '-infinity', 'infinity', budget_internal.run_lock_key(p_key_id, p_name))
  returning p.period_id into period_id;
  insert into budget_internal.runs (org_id, run_id, key_id, budget_id, parent_run_id, carved_nano_usd, started_at)
  values (
    p_org_id, run_id, p_key_id, budget_id, p_parent_run_id,
    case when p_parent_run_id is null then 0 else p_limit_nano_usd end, p_now
  );
end
$$;
revoke all on function budget_internal.open_run(bigint, bigint, text, bigint, bigint, bigint, timestamptz) from public;
comment on function budget_internal.open_run(bigint, bigint, text, bigint, bigint, bigint, timestamptz) is
  'Make a run with its budget and period.';
