-- budget_internal.not_open: the answer for a reservation that cannot go on: it has ended, is quarantined, or was never there.
create or replace function budget_internal.not_open(p_item integer, p_reservation_id uuid) returns budget.reserve_result
language plpgsql stable
as $$
declare
  v_result budget.reserve_result;
begin
  v_result.item := p_item;
  v_result.status := 'denied';
  v_result.code := 'reservation_ended';
  v_result.reservation_id := p_reservation_id;
  select s.state into v_result.state from budget.reservation_status s where s.reservation_id = p_reservation_id;
  v_result.message := case
    when v_result.state is null then format('there is no reservation %s', p_reservation_id)
    when v_result.state = 'open' then format('reservation %s is stale: nothing was heard of it for too long', p_reservation_id)
    else format('reservation %s is not open any more, it is %s', p_reservation_id, v_result.state)
  end;
  return v_result;
end
$$;
revoke all on function budget_internal.not_open(integer, uuid) from public;
comment on function budget_internal.not_open(integer, uuid) is 'Refusal for a reservation that is not open.';
