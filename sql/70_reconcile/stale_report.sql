-- budget_internal.stale_report: what the reconciler says of a row: the report that could not be booked before, or stale.
create or replace function budget_internal.stale_report(p_reservation budget_internal.reservations) returns jsonb
language sql stable
as $$
  select coalesce(
    p_reservation.reported,
    jsonb_build_object('reservation_id', p_reservation.reservation_id, 'outcome', 'stale')
  )
$$;
revoke all on function budget_internal.stale_report(budget_internal.reservations) from public;
comment on function budget_internal.stale_report(budget_internal.reservations) is 'Report of the reconciler for a row.';
