-- budget.quote: what usage costs, in nano-USD, by the price in force at a moment. Takes nothing.
-- errors: LB101 bad usage, LB103 no reviewed price, or none for one of the units.
create or replace function budget.quote(
  p_provider text, p_model text, p_usage jsonb, p_at timestamptz default null, p_variant text default 'standard'
) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_at timestamptz := coalesce(p_at, budget_internal.clock());
  v_price_id bigint := budget_internal.price_in_force(p_provider, p_model, v_at);
  v_defect text := coalesce(budget_internal.usage_defect(p_usage), case when p_usage is null then 'usage is missing' end);
  v_cost numeric;
begin
  if v_defect is not null then
    perform budget_internal.fail('LB101', v_defect, '');
  end if;
  if v_price_id is null then
    perform budget_internal.fail(
      'LB103', format('model %s of provider %s has no reviewed price', to_json(p_model), to_json(p_provider)),
      'Add one with budget.add_price and budget.review_price.'
    );
  end if;
  v_cost := budget_internal.price_usage(v_price_id, p_variant, p_usage, v_at);
  if v_cost is null then
    perform budget_internal.fail(
      'LB103', format('a unit of %s has no %s price: %s', p_model, p_variant, left(p_usage::text, 200)), ''
    );
  end if;
  if v_cost > 9223372036854775807 then
    perform budget_internal.fail('LB101', 'the cost is out of range', '');
  end if;
  return v_cost;
end
$$;
comment on function budget.quote(text, text, jsonb, timestamptz, text) is
  'Cost of usage in nano-USD at a moment (default: now) and variant. LB101 bad usage, LB103 unpriced.';
revoke all on function budget.quote(text, text, jsonb, timestamptz, text) from public;
grant execute on function budget.quote(text, text, jsonb, timestamptz, text) to budget_reader, budget_admin, budget_gateway;
