-- budget_internal.price_usages: what usages cost, each under a price version and at a moment, in nano-USD: the exact sum,
-- rounded up once. Null when there is no version, or it has no price for one of the units.
-- The one pricing function: settlements, quotes and reports all come here. A call is priced at the moment at which it was
-- admitted (reserved_at), however long it runs: what was held then is what its usage costs later. A rate of the window that is
-- open then comes before one of the rest of the day.
create or replace function budget_internal.price_usages(
  p_price_ids bigint[], p_variants text[], p_usages jsonb[], p_ats timestamptz[]
) returns numeric[]
language plpgsql stable
as $$
begin
  return array(
    with line as (
      select
        i.place, i.price_id, i.variant, i.at, k.kind, k.fallback_kind, u.value::numeric as quantity,
        sum(u.value::numeric) filter (where k.direction = 'input') over (partition by i.place) as input_tokens
      from unnest(p_price_ids, p_variants, p_usages, p_ats) with ordinality i (price_id, variant, usage, at, place)
      cross join lateral jsonb_each_text(i.usage) u
      left join budget_internal.charge_kinds k on k.kind = u.key
      where u.value::numeric <> 0
    ), priced as (
      select l.place, l.quantity * (
        select r.scaled
        from budget_internal.price_rates r
        where r.price_id = l.price_id and r.variant = l.variant and r.kind in (l.kind, l.fallback_kind)
          and (r.above_input_tokens = 0 or r.above_input_tokens < l.input_tokens)
          -- Asked for a version that has windows only.
          and (r.window_no = 0 or r.window_no = budget_internal.price_window(l.price_id, l.at))
        order by (r.kind = l.kind) desc, r.window_no desc, r.above_input_tokens desc
        limit 1
      ) as cost
      from line l
      -- Not pulled up: each line is priced once.
      offset 0
    )
    -- ceil() of a quotient rounds large numerics wrongly; div of whole numbers does not.
    select case when i.price_id is not null and count(p.place) = count(p.cost)
      then div(coalesce(sum(p.cost), 0) + 8999999999, 9000000000) end
    from unnest(p_price_ids) with ordinality i (price_id, place)
    left join priced p on p.place = i.place
    group by i.place, i.price_id
    order by i.place
  );
end
$$;
revoke all on function budget_internal.price_usages(bigint[], text[], jsonb[], timestamptz[]) from public;
comment on function budget_internal.price_usages(bigint[], text[], jsonb[], timestamptz[]) is
  'Cost of each usage in nano-USD, rounded up once; null when a unit has no price.';
