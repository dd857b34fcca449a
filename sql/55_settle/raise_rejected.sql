-- budget_internal.raise_rejected: a result of a batch of one, as an error where it was rejected.
create or replace function budget_internal.raise_rejected(p_result budget.settle_result) returns budget.settle_result
language plpgsql immutable
as $$
begin
  if p_result.status = 'rejected' then
    perform budget_internal.fail(
      case p_result.code
        when 'unknown_reservation' then 'LB301' when 'settlement_conflict' then 'LB302'
        when 'not_stale' then 'LB304' else 'LB101'
      end,
      p_result.message, ''
    );
  end if;
  return p_result;
end
$$;
revoke all on function budget_internal.raise_rejected(budget.settle_result) from public;
comment on function budget_internal.raise_rejected(budget.settle_result) is 'Raise LB101, LB301, LB302 or LB304 for a rejected result.';
