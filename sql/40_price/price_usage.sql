-- budget_internal.price_usage: what one usage costs; see price_usages.
create or replace function budget_internal.price_usage(
  p_price_id bigint, p_variant text, p_usage jsonb, p_at timestamptz
) returns numeric
language plpgsql stable
as $$
begin
  return (
    select p.cost_nano_usd from budget_internal.price_usages(array[p_price_id], array[p_variant], array[p_usage], array[p_at]) p
  );
end
$$;
revoke all on function budget_internal.price_usage(bigint, text, jsonb, timestamptz) from public;
comment on function budget_internal.price_usage(bigint, text, jsonb, timestamptz) is
  'Cost of usage at a moment in nano-USD, rounded up once; null when a unit has no price.';
