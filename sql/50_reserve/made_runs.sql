-- budget_internal.made_runs: the periods of a call once its locks are held: a run that another call has made meanwhile is
-- known now, by the lock that both share.
create or replace function budget_internal.made_runs(p_slots budget_internal.slot[]) returns budget_internal.slot[]
language plpgsql stable
as $$
begin
  return array(
    select (
      s.lock_key, s.org_id, coalesce(s.budget_id, r.budget_id), s.starts_at, s.ends_at, s.strict, s.key_id, s.run_name,
      s.run_limit_nano_usd, s.run_max_grants, s.carry_lock_key, s.names
    )::budget_internal.slot
    from unnest(p_slots) with ordinality s
    left join budget_internal.scopes c on s.budget_id is null
      and c.parent_id = s.key_id and c.name = s.run_name and c.kind = 'run' and c.deleted_at is null
    left join budget_internal.runs r on r.run_id = c.scope_id
    order by s.ordinality
  );
end
$$;
revoke all on function budget_internal.made_runs(budget_internal.slot[]) from public;
comment on function budget_internal.made_runs(budget_internal.slot[]) is 'Periods with the runs that exist by now.';
