-- budget_internal.price_usages: what usages cost, each under a price version and at a moment, in nano-USD: the exact sum,
-- rounded up once. defect: why a usage cannot be priced at all; cost null: there is no version, or it has no price for a unit.
-- The one pricing function: settlements, quotes and reports all come here. A call is priced at the moment at which it was
-- admitted (reserved_at), however long it runs: what was held then is what its usage costs later. A rate of the window that is
-- open then comes before one of the rest of the day.
create or replace function budget_internal.price_usages(
  p_price_ids bigint[], p_variants text[], p_usages jsonb[], p_ats timestamptz[]
) returns table (place bigint, defect text, cost_nano_usd numeric)
language sql stable
as $$
  with line as (
    select
      i.place, i.price_id, i.variant, i.at, u.line, u.key, k.kind, k.fallback_kind, k.direction,
      case when jsonb_typeof(u.value) = 'number' then case
        when u.value::numeric between 0 and 1000000000000 and u.value::numeric = trunc(u.value::numeric) then u.value::numeric
      end end as quantity
    from unnest(p_price_ids, p_variants, p_usages, p_ats) with ordinality i (price_id, variant, usage, at, place)
    cross join lateral jsonb_each(case when jsonb_typeof(i.usage) = 'object' then i.usage end) with ordinality u (key, value, line)
    left join budget_internal.charge_kinds k on k.kind = u.key
  ), sized as (
    select l.*, sum(l.quantity) filter (where l.direction = 'input') over (partition by l.place) as input_tokens
    from line l
  ), rate as materialized (
    -- Once for all that were called at the same price.
    select r.*
    from (select distinct i.price_id, i.variant from unnest(p_price_ids, p_variants) i (price_id, variant)) i
    cross join lateral (
      select r.price_id, r.variant, r.kind, r.above_input_tokens, r.window_no, r.scaled
      from budget_internal.price_rates r
      where r.price_id = i.price_id and r.variant = i.variant
      offset 0
    ) r
  ), priced as (
    select distinct on (s.place, s.line)
      s.place, s.key, s.quantity, s.kind, case when s.quantity = 0 then 0 else s.quantity * r.scaled end as scaled
    from sized s
    left join rate r on r.price_id = s.price_id and r.variant = s.variant and r.kind in (s.kind, s.fallback_kind)
      and (r.above_input_tokens = 0 or r.above_input_tokens < s.input_tokens)
      -- Asked for a version that has windows only.
      and (r.window_no = 0 or r.window_no = budget_internal.price_window(s.price_id, s.at))
    order by s.place, s.line, (r.kind = s.kind) desc, r.window_no desc, r.above_input_tokens desc
  )
  select
    i.place,
    case when i.type <> 'object' then 'usage must be an object of charge kinds' else (min(case
      when p.quantity is null then array[p.key, format('usage of %s must be a whole number from 0 to 1000000000000', left(p.key, 40))]
      when p.kind is null then array[p.key, format('%s is not a charge kind', left(p.key, 40))]
    end) filter (where p.place is not null))[2] end,
    -- ceil() of a quotient rounds large numerics wrongly; div of whole numbers does not.
    case when i.price_id is not null and count(p.place) = count(p.scaled)
      then div(coalesce(sum(p.scaled), 0) + 8999999999, 9000000000) end
  from (
    select u.place, u.price_id, jsonb_typeof(u.usage) as type
    from unnest(p_price_ids, p_usages) with ordinality u (price_id, usage, place)
  ) i
  left join priced p on p.place = i.place
  group by i.place, i.price_id, i.type
$$;
revoke all on function budget_internal.price_usages(bigint[], text[], jsonb[], timestamptz[]) from public;
comment on function budget_internal.price_usages(bigint[], text[], jsonb[], timestamptz[]) is
  'Cost of each usage in nano-USD, rounded up once; null when a unit has no price, with a defect when it cannot have one.';
