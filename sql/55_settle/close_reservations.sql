-- budget_internal.close_reservations: the way every reservation ends, for settle, release and the reconciler.
-- reports: as of settle_batch, checked; outcome may also be stale, which ends a row only if it is stale under the lock.
-- locks:   the periods of all reservations, sorted, in one statement; then the reservation rows by id; then period rows.
create or replace function budget_internal.close_reservations(p_reports jsonb) returns setof budget.settle_result
language plpgsql volatile
as $$
declare
  v_ids uuid[] := array(select distinct (r ->> 'reservation_id')::uuid from jsonb_array_elements(p_reports) r);
  v_now timestamptz;
  v_closures budget_internal.closure[];
  v_malformed budget_internal.closure[];
  v_done integer[];
  v_item bigint;
  v_report jsonb;
begin
  perform budget_internal.take_locks(budget_internal.settle_lock_keys(v_ids));
  perform 1 from budget_internal.reservations r where r.reservation_id = any (v_ids) order by r.reservation_id for update;

  v_now := budget_internal.clock();
  v_closures := array(
    select c
    from budget_internal.judge_closures(p_reports, v_now) c
    where c.outcome <> 'stale' or exists (
      select 1 from budget_internal.reservations r where r.reservation_id = c.reservation_id and r.stale_at < v_now offset 0
    )
    order by c.item
  );
  v_done := array(select c.item from unnest(v_closures) c);

  return query select * from budget_internal.book_closures(
    array(select c from unnest(v_closures) c where c.defect is null order by c.item), v_now
  );
  v_malformed := array(select c from unnest(v_closures) c where c.defect is not null order by c.item);
  if cardinality(v_malformed) > 0 then
    return query select * from budget_internal.defer_closures(v_malformed, p_reports, v_now);
  end if;

  if cardinality(v_done) < jsonb_array_length(p_reports) then
    for v_item, v_report in
      select r.ordinality, r.value
      from jsonb_array_elements(p_reports) with ordinality r
      where r.ordinality <> all (v_done) and r.value ->> 'outcome' <> 'stale'
      order by r.value ->> 'reservation_id', r.ordinality
    loop
      return next budget_internal.settle_ended(v_item::integer, v_report, v_now);
    end loop;
  end if;
end
$$;
revoke all on function budget_internal.close_reservations(jsonb) from public;
comment on function budget_internal.close_reservations(jsonb) is 'End reservations by checked reports; one result each.';
