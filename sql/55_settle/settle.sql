-- budget.settle: turn one hold into spend, once; a batch of one that raises what a batch reports.
-- errors: LB101 bad report, LB301 unknown reservation, LB302 settled before with another report.
create or replace function budget.settle(
  p_reservation_id uuid, p_usage jsonb default null, p_outcome text default 'finished', p_provider_cost_usd numeric default null
) returns budget.settle_result
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_result budget.settle_result;
begin
  if p_provider_cost_usd in ('NaN', 'Infinity', '-Infinity') then
    perform budget_internal.fail('LB101', 'provider_cost_usd must be an amount from 0 to 9000000000', '');
  end if;
  select * into v_result from budget.settle_batch(jsonb_build_array(jsonb_build_object(
    'reservation_id', p_reservation_id, 'usage', p_usage, 'outcome', p_outcome, 'provider_cost_usd', p_provider_cost_usd
  )));
  return budget_internal.raise_rejected(v_result);
end
$$;
comment on function budget.settle(uuid, jsonb, text, numeric) is
  'Settle one reservation: usage by charge kind, outcome finished, estimated, unknown, released or unsent. LB301 unknown, LB302 conflict.';
revoke all on function budget.settle(uuid, jsonb, text, numeric) from public;
grant execute on function budget.settle(uuid, jsonb, text, numeric) to budget_gateway, budget_admin;
