-- budget_internal.cheapest_models: the models that a key may use, other than the one asked for, with a bound below which a
-- request cannot be held on them (the lowest rate of each kind that any request can meet), and where they lead. Cheapest first.
create or replace function budget_internal.cheapest_models(
  p_request jsonb, p_key_id bigint, p_rates budget_internal.rates, p_now timestamptz,
  out model text, out floor_nano_usd bigint, out upstream_models text[], out account_ids bigint[]
) returns setof record
language sql stable
as $$
  with asked as (
    select
      k.org_id, k.allowed_models, b.least_input, n.choices,
      -- A hold that grows starts with a first slice.
      least(k.max_output_tokens, case when (p_request #>> '{options,grow}')::boolean then k.first_output_tokens end) as key_max_output_tokens,
      coalesce(
        (p_request ->> 'max_output_tokens')::numeric, k.default_max_output_tokens, p.default_max_output_tokens
      ) as output_tokens,
      -- A token limit shrinks the output to what it leaves.
      (
        select min(greatest(1, div(t.tpm - t.tokens - b.most_input, n.choices)))
        from unnest(p_rates.tpm, p_rates.tokens) t (tpm, tokens)
      ) as limited_output_tokens
    from budget_internal.keys k
    cross join lateral budget_internal.policy(k.org_id, k.project_id) p
    cross join (select coalesce((p_request #>> '{options,n}')::numeric, 1) as choices) n
    cross join (
      select min(i.tokens) as least_input, max(i.tokens) as most_input
      from (
        select (p_request ->> 'input_tokens')::numeric as tokens
        union all
        select i.value::numeric from jsonb_each_text(p_request #> '{options,input_bounds}') i
      ) i
    ) b
    where k.key_id = p_key_id
  ), routed as (
    select
      a.*, r.model, r.upstream_model, r.account_id, m.context_window_tokens,
      budget_internal.price_in_force(r.provider, r.upstream_model, p_now) as price_id,
      min(m.max_output_tokens) over (partition by r.model) as model_max_output
    from asked a
    join budget_internal.routes r on r.org_id = a.org_id or r.org_id = 0 and not exists (
      select 1 from budget_internal.routes o where o.org_id = a.org_id and o.model = r.model
    )
    left join budget_internal.models m on m.provider = r.provider and m.model = r.upstream_model
    where r.model <> p_request ->> 'model' and (a.allowed_models is null or r.model = any (a.allowed_models))
      -- What generates nothing does not stand in for what does.
      and (m.max_output_tokens is distinct from 0 or (p_request ->> 'max_output_tokens')::numeric = 0)
  )
  select
    r.model,
    coalesce(max(least(1000000000000000, div(
      f.input * least(r.least_input, r.context_window_tokens)
      + f.output * r.choices * least(
        coalesce(r.output_tokens, least(r.model_max_output, 8192)), r.key_max_output_tokens, r.model_max_output,
        r.limited_output_tokens
      ),
      9000000000
    ))), 0)::bigint as floor_nano_usd,
    array_agg(r.upstream_model), array_agg(r.account_id)
  from routed r
  left join lateral (
    select
      max(k.lowest) filter (where k.direction = 'input') as input, max(k.lowest) filter (where k.direction = 'output') as output
    from (
      select c.direction, min(t.scaled) as lowest
      from budget_internal.price_rates t
      join budget_internal.charge_kinds c on c.kind = t.kind and c.feature is null
      where t.price_id = r.price_id and t.variant = 'standard'
      group by c.kind
      -- One that is priced only in some hours or above some size cannot always be met.
      having bool_or(t.above_input_tokens = 0 and t.window_no = 0)
    ) k
  ) f on true
  group by r.model
  order by floor_nano_usd, r.model
$$;
revoke all on function budget_internal.cheapest_models(jsonb, bigint, budget_internal.rates, timestamptz) from public;
comment on function budget_internal.cheapest_models(jsonb, bigint, budget_internal.rates, timestamptz) is
  'Models of a key with the least that a request could hold on them, cheapest first.';
