-- budget_internal.worst_case: the most a request can cost under a price version, in nano-USD; null when unpriced.
-- Tiers are cliffs and need not rise: an input that ends just at a threshold is looked at as well as the bound itself.
-- A call is priced before the locks and stamped (reserved_at) after them, by which time a window may have opened. So in the
-- last seconds of a minute, more of them than the gateway's statement_timeout, the next minute is looked at too: the charge, at
-- the stamp's rates, never passes the hold.
create or replace function budget_internal.worst_case(
  p_price_id bigint, p_variant text, p_input_tokens bigint, p_output_tokens numeric, p_features text[], p_at timestamptz
) returns numeric
language plpgsql stable
as $$
declare
  v_cost numeric;
  v_other numeric;
  v_size bigint;
begin
  v_cost := budget_internal.price_usage(
    p_price_id, p_variant,
    budget_internal.worst_case_usage(p_price_id, p_variant, p_input_tokens, p_output_tokens, p_features, p_at), p_at
  );
  -- greatest() passes over null, which must stay here and below: no price.
  for v_size in
    select distinct r.above_input_tokens
    from budget_internal.price_rates r
    where r.price_id = p_price_id and r.variant = p_variant
      and r.above_input_tokens > 0 and r.above_input_tokens < p_input_tokens
  loop
    v_other := budget_internal.price_usage(
      p_price_id, p_variant,
      budget_internal.worst_case_usage(p_price_id, p_variant, v_size, p_output_tokens, p_features, p_at), p_at
    );
    v_cost := case when v_cost is not null and v_other is not null then greatest(v_cost, v_other) end;
  end loop;
  if cardinality(p_features) > 0 and exists (
    -- What a request may use must have a price: it is never held as zero.
    select 1
    from budget_internal.charge_kinds k
    where k.feature = any (p_features) and k.fallback_kind is null and not exists (
      select 1 from budget_internal.price_rates r
      where r.price_id = p_price_id and r.variant = p_variant and r.kind = k.kind
    )
  ) then
    v_cost := null;
  end if;
  if extract(second from p_at) < 40 then
    return v_cost;
  end if;
  if exists (select 1 from budget_internal.price_windows w where w.price_id = p_price_id) then
    v_other := budget_internal.worst_case(
      p_price_id, p_variant, p_input_tokens, p_output_tokens, p_features, date_trunc('minute', p_at) + interval '1 minute'
    );
    v_cost := case when v_cost is not null and v_other is not null then greatest(v_cost, v_other) end;
  end if;
  return v_cost;
end
$$;
revoke all on function budget_internal.worst_case(bigint, text, bigint, numeric, text[], timestamptz) from public;
comment on function budget_internal.worst_case(bigint, text, bigint, numeric, text[], timestamptz) is
  'Most a request can cost at a moment, in nano-USD, for an input bound and an output cap in tokens; null when a unit has no price.';
