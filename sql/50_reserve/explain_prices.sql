-- budget_internal.explain_prices: the lines that make up the worst case of a request, for each route that it may take: kind,
-- quantity, rate and cost. Taken at the input size that costs most, as worst_case does; each line is rounded up by itself, so
-- the lines of a route can add up to a nano-dollar a line more than its worst case.
create or replace function budget_internal.explain_prices(p_way budget_internal.admission, p_now timestamptz) returns jsonb
language plpgsql stable
as $$
begin
  return (
    with size as (
      select i.place, i.price_id, s.input_tokens, u.usage
      from unnest(p_way.price_ids) with ordinality i (price_id, place)
      cross join lateral (
        select p_way.input_tokens as input_tokens
        union
        select r.above_input_tokens
        from budget_internal.price_rates r
        where r.price_id = i.price_id and r.variant = 'standard' and r.above_input_tokens between 1 and p_way.input_tokens - 1
      ) s
      cross join lateral (
        select budget_internal.worst_case_usage(
          i.price_id, 'standard', s.input_tokens, p_way.output_tokens::numeric * p_way.choices, p_way.features, p_now
        ) as usage
      ) u
    ), dearest as (
      select distinct on (s.place) s.*
      from size s
      order by s.place, budget_internal.price_usage(s.price_id, 'standard', s.usage, p_now) desc nulls last, s.input_tokens desc
    )
    select coalesce(jsonb_agg(jsonb_build_object(
      'provider', p.provider, 'model', p.model, 'price_id', p.price_id, 'kind', u.key, 'quantity', u.value,
      'rate_usd', budget.usd(r.amount_nano), 'per', r.per, 'above_input_tokens', r.above_input_tokens,
      'cost_nano_usd', div(u.value::numeric * r.scaled + 8999999999, 9000000000)
    ) order by d.place, u.key), '[]')
    from dearest d
    join budget_internal.prices p on p.price_id = d.price_id
    cross join lateral jsonb_each(d.usage) u
    left join budget_internal.charge_kinds k on k.kind = u.key
    left join lateral (
      select r.*
      from budget_internal.price_rates r
      where r.price_id = d.price_id and r.variant = 'standard' and r.kind in (k.kind, k.fallback_kind)
        and (r.above_input_tokens = 0 or r.above_input_tokens < d.input_tokens)
        and (r.window_no = 0 or r.window_no = budget_internal.price_window(d.price_id, p_now))
      order by (r.kind = k.kind) desc, r.window_no desc, r.above_input_tokens desc
      limit 1
    ) r on true
  );
end
$$;
revoke all on function budget_internal.explain_prices(budget_internal.admission, timestamptz) from public;
comment on function budget_internal.explain_prices(budget_internal.admission, timestamptz) is 'Price lines of a request''s worst case.';
