-- budget_internal.made_runs: the periods of a call once its locks are held: a run that another call has made meanwhile is
-- known now, by the lock that both share.
create or replace function budget_internal.made_runs(p_slots budget_internal.slot[]) returns budget_internal.slot[]
language plpgsql stable
as $$
begin
  return array(
    select (
      s.lock_key, s.org_id, coalesce(s.budget_id, (budget_internal.named_run(s.key_id, s.run_name)).budget_id),
      s.starts_at, s.ends_at, s.strict, s.key_id, s.run_name, s.run_limit_nano_usd, s.run_max_grants, s.carry_lock_key, s.names
    )::budget_internal.slot
    from unnest(p_slots) with ordinality s
    order by s.ordinality
  );
end
$$;
revoke all on function budget_internal.made_runs(budget_internal.slot[]) from public;
comment on function budget_internal.made_runs(budget_internal.slot[]) is 'Periods with the runs that exist by now.';
