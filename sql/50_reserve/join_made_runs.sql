-- budget_internal.join_made_runs: put calls into a run that another call or an admin made while they waited for its lock: they
-- belong to it as if they had found it.
create or replace function budget_internal.join_made_runs(
  p_admissions budget_internal.admission[], p_slots budget_internal.slot[]
) returns budget_internal.admission[]
language plpgsql stable
as $$
declare
  v_run_id bigint;
  v_item integer;
begin
  for v_item, v_run_id in
    select i.i, r.run_id
    from generate_subscripts(p_admissions, 1) i
    join unnest(p_slots) s on s.run_name = p_admissions[i].run_name and s.key_id = p_admissions[i].key_id
    join budget_internal.runs r on r.budget_id = s.budget_id
    where p_admissions[i].run_id is null
  loop
    p_admissions[v_item].run_id := v_run_id;
    p_admissions[v_item].scope_ids := v_run_id || p_admissions[v_item].scope_ids;
  end loop;
  return p_admissions;
end
$$;
revoke all on function budget_internal.join_made_runs(budget_internal.admission[], budget_internal.slot[]) from public;
comment on function budget_internal.join_made_runs(budget_internal.admission[], budget_internal.slot[]) is
  'Admissions with the runs that were made meanwhile.';
