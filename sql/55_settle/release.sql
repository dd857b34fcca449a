-- budget.release: drop a hold because nothing can have been spent.
-- errors: LB301 unknown reservation, LB302 it was settled. repeats: a second release returns the first.
create or replace function budget.release(p_reservation_id uuid, p_reason text default null) returns budget.settle_result
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_result budget.settle_result;
begin
  select * into v_result from budget.settle_batch(jsonb_build_array(jsonb_build_object(
    'reservation_id', p_reservation_id, 'outcome', 'released',
    'note', case when p_reason is not null then jsonb_build_object('reason', p_reason) end
  )));
  return budget_internal.raise_rejected(v_result);
end
$$;
comment on function budget.release(uuid, text) is 'Release a hold in full. LB301 unknown, LB302 settled before.';
revoke all on function budget.release(uuid, text) from public;
grant execute on function budget.release(uuid, text) to budget_gateway, budget_admin;
