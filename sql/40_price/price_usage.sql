-- budget_internal.price_usage: what usage costs under a price version, in nano-USD: the exact sum, rounded up once.
-- The one pricing function: holds, settlements, quotes and reports all come here. Null when a unit has no price.
create or replace function budget_internal.price_usage(p_price_id bigint, p_variant text, p_usage jsonb) returns numeric
language plpgsql stable
as $$
begin
  return (
    with line as (
      select k.kind, k.fallback_kind, k.direction, u.value::numeric as quantity
      from jsonb_each_text(p_usage) u
      left join budget_internal.charge_kinds k on k.kind = u.key
      where u.value::numeric <> 0
    ), size as (
      select coalesce(sum(quantity), 0) as input_tokens from line where direction = 'input'
    ), priced as (
      select l.quantity * (
        select r.scaled
        from budget_internal.price_rates r
        where r.price_id = p_price_id and r.variant = p_variant and r.kind in (l.kind, l.fallback_kind)
          and (r.above_input_tokens = 0 or r.above_input_tokens < s.input_tokens)
        order by (r.kind = l.kind) desc, r.above_input_tokens desc
        limit 1
      ) as cost
      from line l, size s
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
revoke all on function budget_internal.price_usage(bigint, text, jsonb) from public;
comment on function budget_internal.price_usage(bigint, text, jsonb) is
  'Cost of usage in nano-USD, rounded up once; null when a unit has no price.';
