-- budget_internal.worst_case_usage: the dearest usage a request can turn into: every input token as the dearest input
-- kind its features can trigger, every output token as the dearest output kind, every fee as often as it may be used: a feature
-- that may be used n times is in the list n times.
-- Fed to price_usage, so that hold and settlement are priced by the same function.
create or replace function budget_internal.worst_case_usage(
  p_price_id bigint, p_variant text, p_input_tokens bigint, p_output_tokens numeric, p_features text[], p_at timestamptz
) returns jsonb
language plpgsql stable
as $$
begin
  return (
    select
      coalesce(jsonb_object_agg(
        d.kind, case d.direction when 'input' then p_input_tokens when 'output' then p_output_tokens else d.uses end
      ), '{}')
      -- What has no rate is asked for all the same: then there is no price.
      || case when count(*) filter (where d.direction = 'input') = 0 then jsonb_build_object('input', p_input_tokens) else '{}' end
      || case when count(*) filter (where d.direction = 'output') = 0 then jsonb_build_object('output', p_output_tokens) else '{}' end
    from (
      -- Of the kinds of a direction the dearest; of fees each.
      select distinct on (r.place) r.kind, r.direction, r.uses
      from (
        -- Of each kind the rate in force at this size and moment, as price_usage takes it.
        select distinct on (r.kind)
          r.kind, k.direction, case k.direction when 'fee' then r.kind else k.direction end as place, r.scaled,
          greatest(1, cardinality(array_positions(p_features, k.feature))) as uses
        from budget_internal.price_rates r
        join budget_internal.charge_kinds k on k.kind = r.kind
        where r.price_id = p_price_id and r.variant = p_variant
          and (r.above_input_tokens = 0 or r.above_input_tokens < p_input_tokens)
          and (r.window_no = 0 or r.window_no = budget_internal.price_window(p_price_id, p_at))
          and (k.feature is null or k.feature = any (p_features))
        order by r.kind, r.window_no desc, r.above_input_tokens desc
      ) r
      order by r.place, r.scaled desc, r.kind
    ) d
  );
end
$$;
revoke all on function budget_internal.worst_case_usage(bigint, text, bigint, numeric, text[], timestamptz) from public;
comment on function budget_internal.worst_case_usage(bigint, text, bigint, numeric, text[], timestamptz) is
  'The usage that costs most at a moment for an input bound and an output cap, both in tokens.';
