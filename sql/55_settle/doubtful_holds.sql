-- budget_internal.doubtful_holds: which of some open reservations, in the order in which they will be booked, cannot be ended:
-- one of their periods is missing, or holds less than they do, so that their hold cannot be one that it made.
create or replace function budget_internal.doubtful_holds(p_reservation_ids uuid[], out missing uuid[], out impossible uuid[])
language plpgsql stable
as $$
begin
  -- As a rule each period holds them all.
  if not exists (
    select 1
    from (
      select i.period_id, min(i.reserved_nano_usd) as least, sum(i.reserved_nano_usd) as reserved_nano_usd
      from budget_internal.reservation_periods(p_reservation_ids) i
      group by i.period_id
    ) i
    left join lateral (select p.held_nano_usd from budget_internal.periods p where p.period_id = i.period_id offset 0) p on true
    where i.least < 0 or (i.reserved_nano_usd <= p.held_nano_usd) is not true
  ) then
    return;
  end if;
  select
    array_agg(distinct w.reservation_id) filter (where w.held_nano_usd is null),
    array_agg(distinct w.reservation_id) filter (where w.reserved_nano_usd > w.held_nano_usd or w.booked > w.held_nano_usd)
  into missing, impossible
  from (
    select i.reservation_id, i.reserved_nano_usd, p.held_nano_usd,
      -- One impossible row must not make those after it look so.
      sum(i.reserved_nano_usd) filter (where i.reserved_nano_usd between 0 and p.held_nano_usd)
        over (partition by i.period_id order by i.place) as booked
    from budget_internal.reservation_periods(p_reservation_ids) i
    left join budget_internal.periods p on p.period_id = i.period_id
  ) w;
end
$$;
revoke all on function budget_internal.doubtful_holds(uuid[]) from public;
comment on function budget_internal.doubtful_holds(uuid[]) is 'Reservations whose periods are missing or hold less than they do.';
