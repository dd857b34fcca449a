-- budget_internal.worst_rates: what a request costs at most by any of some price versions and variants, whatever its size: one
-- row a tier. Null: one of the versions is missing, or has no price for a feature that the request may use.
-- A call is priced before the locks and stamped (reserved_at) after them, by which time a window may have opened. So in the
-- last seconds of a minute, more of them than the gateway's statement_timeout, the next minute is looked at too: the charge, at
-- the stamp's rates, never passes the hold.
create or replace function budget_internal.worst_rates(
  p_price_ids bigint[], p_variants text[], p_features text[], p_at timestamptz
) returns budget_internal.worst_rate[]
language plpgsql stable
as $$
begin
  if coalesce(cardinality(p_price_ids), 0) = 0 or array_position(p_price_ids, null) is not null then
    return null;
  end if;
  if cardinality(p_features) > 0 and exists (
    -- What a request may use must have a price: it is never held as zero.
    select 1
    from unnest(p_price_ids) i (price_id)
    cross join unnest(p_variants) v (variant)
    join budget_internal.charge_kinds k on k.feature = any (p_features) and k.fallback_kind is null
    where not exists (
      select 1 from budget_internal.price_rates r
      where r.price_id = i.price_id and r.variant = v.variant and r.kind = k.kind
    )
  ) then
    return null;
  end if;
  return array(
    select (t.above_input_tokens, t.up_to_input_tokens, d.input_scaled, d.output_scaled, d.fees_scaled)::budget_internal.worst_rate
    from (
      select i.price_id, v.variant, s.above_input_tokens,
        lead(s.above_input_tokens) over (partition by i.price_id, v.variant order by s.above_input_tokens) as up_to_input_tokens
      from (select distinct unnest(p_price_ids) as price_id) i
      cross join unnest(p_variants) v (variant)
      cross join lateral (
        select bigint '0' as above_input_tokens
        union
        select r.above_input_tokens from budget_internal.price_rates r where r.price_id = i.price_id and r.variant = v.variant
      ) s
    ) t
    cross join (
      select p_at as at
      union all
      select date_trunc('minute', p_at) + interval '1 minute'
      where extract(second from p_at) >= 40
        and exists (select 1 from budget_internal.price_windows w where w.price_id = any (p_price_ids))
    ) m
    cross join lateral (
      select
        max(r.scaled) filter (where r.direction = 'input') as input_scaled,
        max(r.scaled) filter (where r.direction = 'output') as output_scaled,
        coalesce(sum(r.uses * r.scaled) filter (where r.direction = 'fee'), 0) as fees_scaled
      from budget_internal.dearest_rates(t.price_id, t.variant, p_features, t.above_input_tokens + 1, m.at) r
    ) d
  );
end
$$;
revoke all on function budget_internal.worst_rates(bigint[], text[], text[], timestamptz) from public;
comment on function budget_internal.worst_rates(bigint[], text[], text[], timestamptz) is
  'Most that a token and the fees of a request cost, by tier; null when unpriced.';
