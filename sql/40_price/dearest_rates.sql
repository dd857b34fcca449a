-- budget_internal.dearest_rates: what a request of a size can be charged at most: the dearest kind that an input token can be
-- counted as, the dearest for an output token, and every fee. Kinds of features that it does not use cannot come up. A direction
-- without any rate is there all the same, without one: then there is no price.
-- A feature that may be used n times is in the list n times.
create or replace function budget_internal.dearest_rates(
  p_price_id bigint, p_variant text, p_features text[], p_input_tokens bigint, p_at timestamptz
) returns table (direction text, kind text, uses integer, scaled numeric, amount_nano bigint, per bigint, above_input_tokens bigint)
language sql stable
as $$
  -- Of the kinds of a direction the dearest; of fees each.
  select distinct on (d.place) d.direction, d.kind, d.uses, d.scaled, d.amount_nano, d.per, d.above_input_tokens
  from (
    -- Of each kind the rate in force at this size and moment, as price_usages takes it.
    select distinct on (k.kind)
      k.kind, k.direction, case k.direction when 'fee' then k.kind else k.direction end as place,
      greatest(1, cardinality(array_positions(p_features, k.feature))) as uses,
      r.scaled, r.amount_nano, r.per, r.above_input_tokens
    from budget_internal.charge_kinds k
    left join budget_internal.price_rates r on r.kind = k.kind and r.price_id = p_price_id and r.variant = p_variant
      and (r.above_input_tokens = 0 or r.above_input_tokens < p_input_tokens)
      and (r.window_no = 0 or r.window_no = budget_internal.price_window(p_price_id, p_at))
    where (k.feature is null or k.feature = any (p_features)) and (r.kind is not null or k.kind in ('input', 'output'))
    order by k.kind, r.window_no desc, r.above_input_tokens desc
  ) d
  order by d.place, d.scaled desc nulls last, d.kind
$$;
revoke all on function budget_internal.dearest_rates(bigint, text, text[], bigint, timestamptz) from public;
comment on function budget_internal.dearest_rates(bigint, text, text[], bigint, timestamptz) is
  'Rates that make up the worst case of a request of so many input tokens.';
