-- budget_internal.parent_run_periods: the periods of the runs above a run. A call of the run is held on the run alone, whose
-- ceiling its parents hold already; what the call costs is spent by each of them.
create or replace function budget_internal.parent_run_periods(p_run_id bigint) returns bigint[]
language plpgsql stable
as $$
begin
  return array(
    with recursive above as (
      select r.parent_run_id from budget_internal.runs r where r.run_id = p_run_id
      union all
      select r.parent_run_id from above a join budget_internal.runs r on r.run_id = a.parent_run_id
    )
    select p.period_id
    from above a
    join budget_internal.runs r on r.run_id = a.parent_run_id
    join budget_internal.periods p on p.budget_id = r.budget_id
    order by p.period_id
  );
end
$$;
revoke all on function budget_internal.parent_run_periods(bigint) from public;
comment on function budget_internal.parent_run_periods(bigint) is 'Periods of the runs above a run.';
