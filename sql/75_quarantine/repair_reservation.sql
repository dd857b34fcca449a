-- budget_internal.repair_reservation: make what is left of a malformed row bookable: periods that are gone are forgotten, and an
-- amount that its periods cannot hold becomes the part of what they hold that no other row and no carved run accounts for.
-- Called under the period locks and the row lock of the reservation.
create or replace function budget_internal.repair_reservation(p_reservation_id uuid) returns void
language plpgsql volatile
as $$
declare
  v_reservation budget_internal.reservations;
  v_held bigint[];
  v_counted bigint[];
  v_reserved bigint;
begin
  select r.* into v_reservation from budget_internal.reservations r where r.reservation_id = p_reservation_id;
  v_held := array(
    select h.period_id
    from unnest(v_reservation.held_period_ids) with ordinality h (period_id, place)
    join budget_internal.periods p on p.period_id = h.period_id
    order by h.place
  );
  v_counted := array(
    select c.period_id
    from unnest(v_reservation.counted_period_ids) with ordinality c (period_id, place)
    join budget_internal.periods p on p.period_id = c.period_id
    order by c.place
  );
  v_reserved := greatest(0, v_reservation.reserved_nano_usd);
  if v_reservation.reserved_nano_usd < 0 or exists (
    select 1 from budget_internal.periods p
    where p.period_id = any (v_held) and p.held_nano_usd < v_reservation.reserved_nano_usd
  ) then
    select coalesce(greatest(0, min(p.held_nano_usd - o.held - c.carved)), 0)
    into v_reserved
    from budget_internal.periods p
    cross join lateral (
      -- Another impossible row must not make this one look so.
      select coalesce(sum(r.reserved_nano_usd::numeric) filter (where r.reserved_nano_usd between 0 and p.held_nano_usd), 0) as held
      from budget_internal.reservations r
      where p.period_id = any (r.held_period_ids) and r.reservation_id <> p_reservation_id
    ) o
    cross join lateral (
      select coalesce(sum(r.carved_nano_usd::numeric), 0) as carved
      from budget_internal.runs r
      join budget_internal.runs u on u.run_id = r.parent_run_id
      where u.budget_id = p.budget_id
    ) c
    where p.period_id = any (v_held);
  end if;
  update budget_internal.reservations r
  set held_period_ids = v_held, counted_period_ids = v_counted, reserved_nano_usd = v_reserved
  where r.reservation_id = p_reservation_id;
end
$$;
revoke all on function budget_internal.repair_reservation(uuid) from public;
comment on function budget_internal.repair_reservation(uuid) is 'Make what is left of a malformed reservation bookable.';
