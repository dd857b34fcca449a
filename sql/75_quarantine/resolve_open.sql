-- budget_internal.resolve_open: end a reservation that is still open as a person decided, malformed or not. Called under its locks.
--   its price is lost     charge takes the whole hold; a budget narrowed to models is not charged, for nothing says which model it was
--   a period is lost      the others are charged, and give back the hold
--   an impossible amount  becomes what the periods really hold for it
-- errors: LB103 usage given that cannot be priced.
create or replace function budget_internal.resolve_open(
  p_reservation budget_internal.reservations, p_report jsonb, p_now timestamptz
) returns budget.settle_result
language plpgsql volatile
as $$
declare
  v_closure budget_internal.closure;
  v_defect text;
  v_result budget.settle_result;
begin
  select c.* into v_closure from budget_internal.judge_closures(jsonb_build_array(p_report), p_now) c;
  v_defect := v_closure.defect;
  if v_defect is not null then
    perform budget_internal.repair_reservation(p_reservation.reservation_id);
    select c.* into v_closure from budget_internal.judge_closures(jsonb_build_array(p_report), p_now) c;
    if v_closure.kind = 'charged' and p_reservation.held_period_ids <> '{}' then
      -- With all its periods gone it still held something.
      select r.reserved_nano_usd into v_closure.amount_nano_usd
      from budget_internal.reservations r
      where r.reservation_id = p_reservation.reservation_id;
    end if;
  end if;
  if p_report -> 'usage' <> 'null' and v_closure.source <> 'usage' then
    perform budget_internal.fail(
      'LB103', format('usage of reservation %s cannot be priced with the price it was admitted under', p_reservation.reservation_id),
      'Charge it without usage, which takes the whole hold, or restore the price.'
    );
  end if;
  v_closure.defect := null;
  v_closure.flags := v_closure.flags || array_remove(array['resolved', v_defect], null);
  select b.* into v_result from budget_internal.book_closures(array[v_closure], p_now) b;
  return v_result;
end
$$;
revoke all on function budget_internal.resolve_open(budget_internal.reservations, jsonb, timestamptz) from public;
comment on function budget_internal.resolve_open(budget_internal.reservations, jsonb, timestamptz) is
  'End an open reservation as a person decided; LB103.';
