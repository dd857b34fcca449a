-- budget.withdraw_price: a model is retired: its last version ends at a moment (default: now). Calls that run keep their price;
-- from then on the model is unpriced until a later version is reviewed.
-- locks:  the model, as review_price.
-- errors: LB101 no reviewed version, or it ends already, or the moment is not after its start.
create or replace function budget.withdraw_price(p_provider text, p_model text, p_at timestamptz default null) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_at timestamptz := coalesce(p_at, budget_internal.clock());
  v_last budget_internal.prices;
begin
  perform budget_internal.lock_model(p_provider, p_model);
  select p.* into v_last
  from budget_internal.prices p
  where p.provider = p_provider and p.model = p_model and p.reviewed_at is not null
  order by p.effective_from desc
  limit 1;
  if v_last.price_id is null then
    perform budget_internal.fail('LB101', format('model %s of provider %s has no reviewed price', to_json(p_model), to_json(p_provider)), '');
  end if;
  if v_last.effective_to is not null then
    perform budget_internal.fail('LB101', format('the last price of %s ends at %s already', to_json(p_model), v_last.effective_to), '');
  end if;
  if v_at <= v_last.effective_from then
    perform budget_internal.fail('LB101', format('the last price of %s begins at %s, which is later', to_json(p_model), v_last.effective_from), '');
  end if;
  update budget_internal.prices p set effective_to = v_at where p.price_id = v_last.price_id;
  return v_last.price_id;
end
$$;
comment on function budget.withdraw_price(text, text, timestamptz) is
  'End the last price version of a model that is retired; returns its id. LB101 when there is none that is open.';
revoke all on function budget.withdraw_price(text, text, timestamptz) from public;
grant execute on function budget.withdraw_price(text, text, timestamptz) to budget_admin;
