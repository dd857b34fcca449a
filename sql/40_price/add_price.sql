-- budget.add_price: a new version of a model's price list. It charges nobody until it is reviewed.
-- rates: [{"kind": "input", "usd": "1.25", "per": 1000000, "variant": "standard", "above_input_tokens": 0}, ...]
-- errors: LB101 unknown model, bad rate, a version of that date exists.
create or replace function budget.add_price(
  p_provider text, p_model text, p_rates jsonb, p_effective_from timestamptz default null, p_source text default null
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_price_id bigint;
  v_rate jsonb;
begin
  if not exists (select 1 from budget_internal.models m where m.provider = p_provider and m.model = p_model) then
    perform budget_internal.fail(
      'LB101', format('there is no model %s of provider %s', to_json(p_model), to_json(p_provider)),
      'Record it with budget.set_model.'
    );
  end if;
  if jsonb_typeof(p_rates) is distinct from 'array' or p_rates = '[]' then
    perform budget_internal.fail('LB101', 'rates must be an array with at least one rate', '');
  end if;

  insert into budget_internal.prices (provider, model, effective_from, source, created_at)
  values (p_provider, p_model, coalesce(p_effective_from, budget_internal.clock()), p_source, budget_internal.clock())
  on conflict do nothing
  returning price_id into v_price_id;
  if v_price_id is null then
    perform budget_internal.fail('LB101', format('%s has a price from %s already', p_model, p_effective_from), '');
  end if;

  for v_rate in select jsonb_array_elements(p_rates) loop
    perform budget_internal.check_options('rate', v_rate, array['kind', 'usd', 'per', 'variant', 'above_input_tokens']);
    if budget_internal.option_usd(v_rate, 'usd') is null then
      perform budget_internal.fail('LB101', format('rate %s has no usd; a free unit is quoted as 0', v_rate ->> 'kind'), '');
    end if;
    begin
      insert into budget_internal.price_rates (price_id, variant, above_input_tokens, kind, amount_nano, per)
      values (
        v_price_id, coalesce(v_rate ->> 'variant', 'standard'), coalesce((v_rate ->> 'above_input_tokens')::bigint, 0),
        v_rate ->> 'kind', budget_internal.option_usd(v_rate, 'usd'), coalesce((v_rate ->> 'per')::bigint, 1000000)
      );
    exception when integrity_constraint_violation or check_violation or foreign_key_violation or unique_violation
      or not_null_violation or invalid_text_representation or numeric_value_out_of_range then
      perform budget_internal.fail('LB101', format('not a rate, or given twice: %s', left(v_rate::text, 200)), '');
    end;
  end loop;
  return v_price_id;
end
$$;
comment on function budget.add_price(text, text, jsonb, timestamptz, text) is
  'Add an unreviewed price version; returns its id. LB101 on bad input.';
revoke all on function budget.add_price(text, text, jsonb, timestamptz, text) from public;
grant execute on function budget.add_price(text, text, jsonb, timestamptz, text) to budget_admin;
