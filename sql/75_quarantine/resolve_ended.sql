-- budget_internal.resolve_ended: correct a provisional charge as a person decided, once, as a late report would. Called under the
-- period locks of the reservation.
-- errors: LB103 usage that cannot be priced, LB301 unknown reservation, LB302 it ended in another way.
create or replace function budget_internal.resolve_ended(p_action text, p_report jsonb, p_now timestamptz)
returns budget.settle_result
language plpgsql volatile
as $$
declare
  v_id constant uuid := (p_report ->> 'reservation_id')::uuid;
  v_result budget.settle_result;
begin
  if p_action = 'retry' and exists (select 1 from budget_internal.ledger_entries l where l.reservation_id = v_id) then
    perform budget_internal.fail('LB302', format('reservation %s has ended: there is nothing to try again', v_id));
  end if;
  v_result := budget_internal.raise_rejected(budget_internal.settle_ended(1, p_report, p_now));
  if v_result.status = 'repeated' and p_report -> 'usage' <> 'null' and not exists (
    select 1 from budget_internal.ledger_entries l where l.reservation_id = v_id and l.usage = p_report -> 'usage'
  ) then
    perform budget_internal.fail(
      'LB103', format('usage of reservation %s cannot be priced with the price it was admitted under', v_id),
      'Its provisional charge, the whole hold, stays as it is.'
    );
  end if;
  return v_result;
end
$$;
revoke all on function budget_internal.resolve_ended(text, jsonb, timestamptz) from public;
comment on function budget_internal.resolve_ended(text, jsonb, timestamptz) is
  'Correct a provisional charge as a person decided; LB103, LB301, LB302.';
