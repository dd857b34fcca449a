-- budget_internal.price_usage: what usage costs under a price version, in nano-USD: the exact sum, rounded up once.
-- The one pricing function: holds, settlements, quotes and reports all come here. Null when a unit has no price.
-- A call is priced at the moment at which it was admitted (reserved_at), however long it runs: what was held then is what its
-- usage costs later. A rate of the window that is open then comes before one of the rest of the day.
create or replace function budget_internal.price_usage(
  p_price_id bigint, p_variant text, p_usage jsonb, p_at timestamptz
) returns numeric
language plpgsql stable
as $$
begin
  return (
    with line as (
      select
        k.kind, k.fallback_kind, u.value::numeric as quantity,
        sum(u.value::numeric) filter (where k.direction = 'input') over () as input_tokens
      from jsonb_each_text(p_usage) u
      left join budget_internal.charge_kinds k on k.kind = u.key
      where u.value::numeric <> 0
    ), priced as (
      select l.quantity * (
        select r.scaled
        from budget_internal.price_rates r
        where r.price_id = p_price_id and r.variant = p_variant and r.kind in (l.kind, l.fallback_kind)
          and (r.above_input_tokens = 0 or r.above_input_tokens < l.input_tokens)
          -- Asked for a version that has windows only.
          and (r.window_no = 0 or r.window_no = budget_internal.price_window(p_price_id, p_at))
        order by (r.kind = l.kind) desc, r.window_no desc, r.above_input_tokens desc
        limit 1
      ) as cost
      from line l
      -- Not pulled up: each line is priced once.
      offset 0
    )
    -- ceil() of a quotient rounds large numerics wrongly; div of whole numbers does not.
    select case
      when p_price_id is null or count(*) > count(cost) then null
      else div(coalesce(sum(cost), 0) + 8999999999, 9000000000)
    end
    from priced
  );
end
$$;
revoke all on function budget_internal.price_usage(bigint, text, jsonb, timestamptz) from public;
comment on function budget_internal.price_usage(bigint, text, jsonb, timestamptz) is
  'Cost of usage at a moment in nano-USD, rounded up once; null when a unit has no price.';
