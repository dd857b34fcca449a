-- budget_internal.worst_case_usage: the dearest usage a request can turn into: every input token as the dearest input
-- kind its features can trigger, every output token as the dearest output kind, every fee once.
-- Fed to price_usage, so that hold and settlement are priced by the same function.
create or replace function budget_internal.worst_case_usage(
  p_price_id bigint, p_variant text, p_input_tokens bigint, p_output_tokens numeric, p_features text[]
) returns jsonb
language plpgsql stable
as $$
begin
  return (
    with reachable as (
      -- Of each kind the rate in force at this size, as price_usage takes it.
    select distinct on (r.kind) r.kind, k.direction, r.scaled
      from budget_internal.price_rates r
      join budget_internal.charge_kinds k on k.kind = r.kind
      where r.price_id = p_price_id and r.variant = p_variant
        and (r.above_input_tokens = 0 or r.above_input_tokens < p_input_tokens)
        and (k.feature is null or k.feature = any (p_features))
      order by r.kind, r.above_input_tokens desc
    ), dearest as (
      select distinct on (direction) direction, kind from reachable where direction <> 'fee' order by direction, scaled desc, kind
    )
    select jsonb_build_object(
      coalesce((select kind from dearest where direction = 'input'), 'input'), p_input_tokens,
      coalesce((select kind from dearest where direction = 'output'), 'output'), p_output_tokens
    ) || coalesce((select jsonb_object_agg(kind, 1) from reachable where direction = 'fee'), '{}')
  );
end
$$;
revoke all on function budget_internal.worst_case_usage(bigint, text, bigint, numeric, text[]) from public;
comment on function budget_internal.worst_case_usage(bigint, text, bigint, numeric, text[]) is
  'The usage that costs most for an input bound and an output cap, both in tokens.';
