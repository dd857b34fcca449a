-- budget.add_price: a new version of a model's price list. It charges nobody until it is reviewed.
-- rates:  [{"kind": "input", "usd": "1.25", "per": 1000000, "variant": "standard", "above_input_tokens": 0}, ...]
--         "window": {"from": "01:00", "to": "04:00", "weekdays": [1, 2, 3, 4, 5]}: only at these times, in UTC; while it is open
--         such a rate is taken instead of all others of its kind and variant. A window may pass midnight, and then belongs to
--         the day on which it begins; two windows of one version are the same or apart.
-- detail: remarks for the reviewer, such as what another source says.
-- errors: LB101 unknown model, bad rate, one given twice, windows that overlap, a version of that date exists.
create or replace function budget.add_price(
  p_provider text, p_model text, p_rates jsonb, p_effective_from timestamptz default null, p_source text default null,
  p_detail jsonb default null
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_price_id bigint;
  v_at timestamptz := coalesce(p_effective_from, budget_internal.clock());
  v_bad record;
begin
  perform budget_internal.require_model(p_provider, p_model);
  if not isfinite(v_at) then
    perform budget_internal.fail('LB101', 'effective_from must be a moment', '');
  end if;
  if jsonb_typeof(p_rates) is distinct from 'array' or p_rates = '[]' then
    perform budget_internal.fail('LB101', 'rates must be an array with at least one rate', '');
  end if;
  select r.value as rate, d.defect into v_bad
  from jsonb_array_elements(p_rates) with ordinality r
  cross join lateral budget_internal.rate_defect(r.value) d (defect)
  where d.defect is not null
  order by r.ordinality
  limit 1;
  if v_bad.defect is not null then
    perform budget_internal.fail('LB101', format('not a rate: %s: %s', v_bad.defect, left(v_bad.rate::text, 200)), '');
  end if;

  insert into budget_internal.prices (provider, model, effective_from, source, created_at, detail)
  values (p_provider, p_model, v_at, p_source, budget_internal.clock(), p_detail)
  on conflict (provider, model, effective_from) do nothing
  returning price_id into v_price_id;
  if v_price_id is null then
    perform budget_internal.fail('LB101', format('%s has a price from %s already', p_model, v_at), '');
  end if;
  perform budget_internal.add_windows(v_price_id, p_rates);

  insert into budget_internal.price_rates (price_id, variant, above_input_tokens, kind, amount_nano, per, window_no)
  select
    v_price_id, coalesce(r.value ->> 'variant', 'standard'), coalesce((r.value ->> 'above_input_tokens')::bigint, 0),
    r.value ->> 'kind', budget_internal.option_usd(r.value, 'usd'), coalesce((r.value ->> 'per')::bigint, 1000000),
    coalesce(w.window_no, 0)
  from jsonb_array_elements(p_rates) r
  left join lateral budget_internal.window_parts(r.value -> 'window') t on true
  left join budget_internal.price_windows w on w.price_id = v_price_id
    and (w.from_minute, w.to_minute, w.weekdays) = (t.from_minute, t.to_minute, t.weekdays)
  on conflict do nothing;
  if (select count(*) from budget_internal.price_rates r where r.price_id = v_price_id) <> (
    select count(*)
    from jsonb_array_elements(p_rates) r
    left join lateral budget_internal.window_parts(r.value -> 'window') t on true
  ) then
    perform budget_internal.fail('LB101', format('a rate of %s is given twice', to_json(p_model)), '');
  end if;
  return v_price_id;
end
$$;
comment on function budget.add_price(text, text, jsonb, timestamptz, text, jsonb) is
  'Add an unreviewed price version; returns its id. LB101 on bad input.';
revoke all on function budget.add_price(text, text, jsonb, timestamptz, text, jsonb) from public;
grant execute on function budget.add_price(text, text, jsonb, timestamptz, text, jsonb) to budget_admin;
