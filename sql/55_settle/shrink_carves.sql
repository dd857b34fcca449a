-- budget_internal.shrink_carves: what parent runs hold for the runs below them, brought up to what these have left: a child
-- that runs keeps its ceiling set aside, less what it has spent; one that has ended only what its open calls hold.
-- Called under the period locks after the counters of these runs moved; from the lowest run upward.
create or replace function budget_internal.shrink_carves(p_run_ids bigint[]) returns void
language plpgsql volatile
as $$
declare
  v_run record;
  v_carve bigint;
begin
  for v_run in
    with recursive above as (
      select r.run_id, r.parent_run_id, 0 as height
      from budget_internal.runs r
      where r.run_id = any (p_run_ids) and r.parent_run_id is not null
      union all
      select r.run_id, r.parent_run_id, a.height + 1
      from above a
      join budget_internal.runs r on r.run_id = a.parent_run_id
      where r.parent_run_id is not null
    )
    select run_id, max(height) as height from above group by run_id order by height, run_id
  loop
    select case when r.ended_at is not null then p.held_nano_usd
      else greatest(b.limit_nano_usd - p.spent_nano_usd, p.held_nano_usd) end
    into v_carve
    from budget_internal.runs r
    join budget_internal.budgets b on b.budget_id = r.budget_id
    join budget_internal.periods p on p.budget_id = r.budget_id
    where r.run_id = v_run.run_id;

    update budget_internal.periods p
    set held_nano_usd = p.held_nano_usd - r.carved_nano_usd + v_carve
    from budget_internal.runs r
    join budget_internal.runs u on u.run_id = r.parent_run_id
    where r.run_id = v_run.run_id and p.budget_id = u.budget_id and r.carved_nano_usd <> v_carve;
    update budget_internal.runs r set carved_nano_usd = v_carve where r.run_id = v_run.run_id and r.carved_nano_usd <> v_carve;
  end loop;
end
$$;
revoke all on function budget_internal.shrink_carves(bigint[]) from public;
comment on function budget_internal.shrink_carves(bigint[]) is 'Bring what parent runs hold for their children up to date.';
