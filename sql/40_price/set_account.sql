-- budget.set_account: whether the cost that a provider account states for a call is taken for its charge.
-- errors: LB101 unknown account, null.
create or replace function budget.set_account(p_account text, p_trusts_stated_cost boolean) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_account_id bigint := budget_internal.find_scope(0, 'account', p_account);
begin
  if p_trusts_stated_cost is null then
    perform budget_internal.fail('LB101', 'trusts_stated_cost must be true or false', '');
  end if;
  insert into budget_internal.account_settings as a (account_id, trusts_stated_cost)
  values (v_account_id, p_trusts_stated_cost)
  on conflict (account_id, org_id) do update set trusts_stated_cost = excluded.trusts_stated_cost;
end
$$;
comment on function budget.set_account(text, boolean) is
  'Trust the cost that a provider account states for its calls, or price their usage. LB101 on bad input.';
revoke all on function budget.set_account(text, boolean) from public;
grant execute on function budget.set_account(text, boolean) to budget_admin;
