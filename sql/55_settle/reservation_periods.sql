-- budget_internal.reservation_periods: the periods that some open reservations are held against or count in, and what they hold
-- there. place: of the reservation in the list.
create or replace function budget_internal.reservation_periods(
  p_reservation_ids uuid[], out place bigint, out reservation_id uuid, out period_id bigint, out reserved_nano_usd numeric
) returns setof record
language sql stable
as $$
  select
    l.place, l.reservation_id, i.period_id,
    case when i.place <= cardinality(r.held_period_ids) then r.reserved_nano_usd::numeric else 0 end
  from unnest(p_reservation_ids) with ordinality l (reservation_id, place)
  -- By its id, however small the table was when this was planned.
  cross join lateral (select * from budget_internal.reservations r where r.reservation_id = l.reservation_id offset 0) r
  cross join lateral unnest(r.held_period_ids || r.counted_period_ids) with ordinality i (period_id, place)
$$;
revoke all on function budget_internal.reservation_periods(uuid[]) from public;
comment on function budget_internal.reservation_periods(uuid[]) is 'Periods of open reservations, with what they hold there.';
