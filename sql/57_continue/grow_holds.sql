-- budget_internal.grow_holds: put what holds have grown by on their periods, and check the rows against what was decided on
-- copies. errors: LB901 when a row does not agree.
create or replace function budget_internal.grow_holds(p_rooms budget_internal.rooms) returns void
language plpgsql volatile
as $$
declare
  v_broken bigint;
begin
  with grown as (
    select t.*
    from unnest(p_rooms.period_ids, p_rooms.limits, p_rooms.spent, p_rooms.held, p_rooms.taken)
      t (period_id, limit_nano_usd, spent, held, amount)
    where t.amount > 0
  ), changed as (
    update budget_internal.periods p
    set held_nano_usd = p.held_nano_usd + g.amount
    from grown g
    where p.period_id = g.period_id
    returning p.budget_id, g.limit_nano_usd, g.spent::numeric + g.held as decided,
      p.spent_nano_usd::numeric - p.forgiven_nano_usd + p.held_nano_usd as used
  )
  select c.budget_id into v_broken from changed c where c.used > c.limit_nano_usd or c.used <> c.decided limit 1;
  if v_broken is not null then
    perform budget_internal.fail('LB901', format('budget %s would pass its limit by a growing hold', v_broken), '');
  end if;
end
$$;
revoke all on function budget_internal.grow_holds(budget_internal.rooms) from public;
comment on function budget_internal.grow_holds(budget_internal.rooms) is 'Grow holds on their periods; LB901 past a limit.';
