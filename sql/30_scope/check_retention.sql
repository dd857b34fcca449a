-- budget_internal.check_retention: LB101 if settings about to be written would let the ledger forget a call while its request id is
-- still to be answered with it.
create or replace function budget_internal.check_retention(p_policy budget_internal.policies) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_days integer;
  v_most integer;
begin
  select case when p_policy.scope_id = 0 then p_policy.ledger_retention_days else p.ledger_retention_days end
  into v_days
  from budget_internal.policies p
  where p.scope_id = 0;
  select greatest(p_policy.idempotency_days, max(p.idempotency_days))
  into v_most
  from budget_internal.policies p
  where p.scope_id <> p_policy.scope_id;
  if v_days < v_most then
    perform budget_internal.fail('LB101', format(
      'ledger_retention_days (%s) must not be less than idempotency_days (%s): a repeated request is answered from the ledger',
      v_days, v_most
    ));
  end if;
end
$$;
revoke all on function budget_internal.check_retention(budget_internal.policies) from public;
comment on function budget_internal.check_retention(budget_internal.policies) is 'Retention is not shorter than idempotency; LB101.';
