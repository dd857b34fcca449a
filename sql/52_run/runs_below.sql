-- budget_internal.runs_below: a run and all runs that were carved from it, in order of their ids.
create or replace function budget_internal.runs_below(p_run_id bigint) returns bigint[]
language plpgsql stable
as $$
begin
  return array(
    with recursive below as (
      select r.run_id from budget_internal.runs r where r.run_id = p_run_id
      union all
      select r.run_id from below b join budget_internal.runs r on r.parent_run_id = b.run_id
    )
    select run_id from below order by run_id
  );
end
$$;
revoke all on function budget_internal.runs_below(bigint) from public;
comment on function budget_internal.runs_below(bigint) is 'A run and the runs below it.';
