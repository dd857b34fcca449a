-- budget_internal.explain_prices: the lines that make up the worst case of a request, for each route that it may take: kind,
-- quantity, rate and cost. Taken at the input size that costs most, as worst_cost does; each line is rounded up by itself, so
-- the lines of a route can add up to a nano-dollar a line more than its worst case.
create or replace function budget_internal.explain_prices(p_way budget_internal.admission, p_now timestamptz) returns jsonb
language plpgsql stable
as $$
begin
  return (
    with line as (
      select i.place, i.price_id, s.input_tokens, r.*,
        case r.direction
          when 'input' then s.input_tokens when 'output' then p_way.output_tokens::numeric * p_way.choices else r.uses
        end as quantity
      from unnest(p_way.price_ids) with ordinality i (price_id, place)
      cross join lateral (
        select p_way.input_tokens as input_tokens
        union
        select r.above_input_tokens
        from budget_internal.price_rates r
        where r.price_id = i.price_id and r.variant = 'standard' and r.above_input_tokens between 1 and p_way.input_tokens - 1
      ) s
      cross join lateral budget_internal.dearest_rates(i.price_id, 'standard', p_way.features, s.input_tokens, p_now) r
    ), dearest as (
      select distinct on (z.place) z.place, z.input_tokens
      from (
        select l.place, l.input_tokens,
          case when bool_and(l.scaled is not null or l.quantity = 0) then sum(l.quantity * l.scaled) end as scaled
        from line l
        group by l.place, l.input_tokens
      ) z
      order by z.place, z.scaled desc nulls last, z.input_tokens desc
    )
    select coalesce(jsonb_agg(jsonb_build_object(
      'provider', p.provider, 'model', p.model, 'price_id', p.price_id, 'kind', l.kind, 'quantity', l.quantity,
      'rate_usd', budget.usd(l.amount_nano), 'per', l.per, 'above_input_tokens', l.above_input_tokens,
      'cost_nano_usd', div(l.quantity * l.scaled + 8999999999, 9000000000)
    ) order by l.place, l.kind), '[]')
    from dearest d
    join line l on l.place = d.place and l.input_tokens = d.input_tokens
    join budget_internal.prices p on p.price_id = l.price_id
  );
end
$$;
revoke all on function budget_internal.explain_prices(budget_internal.admission, timestamptz) from public;
comment on function budget_internal.explain_prices(budget_internal.admission, timestamptz) is 'Price lines of a request''s worst case.';
