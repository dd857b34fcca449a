-- budget_internal.prepare_admissions: read, resolve and price the requests of a batch. Takes no lock and changes nothing:
-- all it reads is configuration, and limits are read again under the locks. A request that cannot go on has a code.
create or replace function budget_internal.prepare_admissions(p_requests jsonb, p_now timestamptz)
returns setof budget_internal.admission
language sql stable
as $$
  with item as materialized (
    select r.ordinality::integer as item, r.value as request, budget_internal.request_defect(r.value) as defect
    from jsonb_array_elements(p_requests) with ordinality r
  ), asked as (
    select
      i.item, i.request ->> 'key' as key, i.request ->> 'model' as model,
      (i.request ->> 'input_tokens')::numeric::bigint as input_tokens,
      (i.request ->> 'max_output_tokens')::numeric::bigint as max_output_tokens,
      coalesce((i.request #>> '{options,n}')::numeric::integer, 1) as choices,
      i.request ->> 'request_id' as request_id,
      -- Who gives no hash of the body is held to what was asked.
      coalesce(i.request #>> '{options,body_hash}', md5(jsonb_build_array(
        i.request -> 'model', i.request -> 'input_tokens', i.request -> 'max_output_tokens', i.request #> '{options,n}',
        i.request #> '{options,features}'
      )::text)) as body_hash,
      i.request #>> '{options,holder}' as holder,
      coalesce(array(select jsonb_array_elements_text(i.request #> '{options,features}')), '{}') as features
    from item i
    where i.defect is null
  ), keyed as (
    select
      a.*, k.org_id, k.key_id, k.chain, k.allowed_models, k.request_ceiling_nano_usd, k.disabled_at,
      least(k.expires_at, s.expires_at) as expires_at, k.default_max_output_tokens,
      k.max_output_tokens as key_max_output_tokens, p.default_max_output_tokens as policy_max_output_tokens,
      p.require_output_limit, p.stale_seconds, p.idempotency_days,
      d.deleted_at
    from asked a
    left join budget_internal.key_secrets s on s.secret_hash = budget_internal.key_secret_hash(a.key)
    left join budget_internal.keys k on k.key_id = s.key_id
    left join budget_internal.scopes d on d.scope_id = k.key_id
    left join lateral budget_internal.policy(k.org_id) p on k.org_id is not null
  ), routed as (
    select k.*, r.*,
      -- One cap for the whole plan: the smallest that every route, the key and the caller allow.
      least(
        coalesce(k.max_output_tokens, k.default_max_output_tokens, k.policy_max_output_tokens, least(r.model_max_output, 8192)),
        k.key_max_output_tokens, r.model_max_output
      ) as output_tokens
    from keyed k
    cross join lateral (
      select
        array_agg(t.route_id order by t.priority, t.route_id) as route_ids,
        array_agg(t.price_id order by t.priority, t.route_id) as price_ids,
        jsonb_agg(
          jsonb_build_object('provider', t.provider, 'account', t.account, 'upstream_model', t.upstream_model)
          order by t.priority, t.route_id
        ) as routes,
        array_agg(distinct t.account_id) as account_ids,
        min(t.max_output_tokens) as model_max_output,
        max(least(k.input_tokens, coalesce(t.context_window_tokens, k.input_tokens))) as bounded_input
      from (
        select
          r.route_id, r.priority, r.provider, r.upstream_model, r.account_id, c.name as account,
          m.max_output_tokens, m.context_window_tokens,
          budget_internal.price_in_force(r.provider, r.upstream_model, p_now) as price_id
        from budget_internal.routes r
        join budget_internal.scopes c on c.scope_id = r.account_id and c.org_id = r.account_org_id
        left join budget_internal.models m on m.provider = r.provider and m.model = r.upstream_model
        where r.model = k.model and r.org_id = case
          when exists (select 1 from budget_internal.routes o where o.org_id = k.org_id and o.model = k.model) then k.org_id
          else 0
        end
      ) t
    ) r
  ), priced as (
    select r.*, c.cost
    from routed r
    left join lateral (
      select case when count(*) = count(w.cost) then max(w.cost) end as cost
      from (
        select budget_internal.worst_case(
          p.price_id, 'standard', r.bounded_input, r.output_tokens::numeric * r.choices, r.features
        ) as cost
        from unnest(r.price_ids) p (price_id)
      ) w
    ) c on r.route_ids is not null
  ), chained as (
    select p.*, b.budget_ids
    from priced p
    left join lateral (
      select array_agg(b.budget_id order by l.place, b.budget_id) as budget_ids
      from unnest(p.chain || coalesce(p.account_ids, '{}')) with ordinality l (scope_id, place)
      join budget_internal.budgets b on b.scope_id = l.scope_id and b.deleted_at is null
    ) b on p.key_id is not null
  ), judged as (
    select c.*,
      case
        when c.key_id is null or c.deleted_at is not null then 'invalid_key'
        when c.disabled_at is not null then 'key_disabled'
        when c.expires_at <= p_now then 'key_expired'
        when cardinality(c.chain) = 0 or cardinality(c.budget_ids) > 10 then 'budget_config_invalid'
        when c.allowed_models is not null and (c.model = any (c.allowed_models)) is not true then 'model_not_allowed'
        when c.route_ids is null then 'model_not_found'
        when c.require_output_limit and c.max_output_tokens is null and c.default_max_output_tokens is null
          and c.policy_max_output_tokens is null then 'output_limit_required'
        when c.cost is null then 'model_unpriced'
        when c.cost > 1000000000000000 then 'invalid_request'
        when c.cost > c.request_ceiling_nano_usd then 'request_over_limit'
      end as code
    from chained c
  )
  select
    i.item,
    case when i.defect is not null then 'invalid_request' else j.code end,
    coalesce(i.defect, case j.code
      when 'invalid_key' then 'this key is not known; check the key that the gateway was called with'
      when 'key_disabled' then 'this key is disabled; ask its owner for another'
      when 'key_expired' then format('this key expired at %s; ask its owner for another', to_char(j.expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
      when 'budget_config_invalid' then format('the budgets of this key cannot be applied: %s budgets on its chain, at most 10 can be', coalesce(cardinality(j.budget_ids), 0))
      when 'model_not_allowed' then format('this key may not use model %s; it may use %s', to_json(j.model), array_to_string(j.allowed_models, ', '))
      when 'model_not_found' then format('model %s has no route; names are exact, GET /v1/models lists them', to_json(j.model))
      when 'output_limit_required' then 'the request sets no output limit and none is configured; set max_tokens'
      when 'model_unpriced' then format('model %s has no reviewed price for what this request may use, so its cost cannot be held', to_json(j.model))
      when 'invalid_request' then 'this request could cost more than $1000000, which is out of range; lower max_tokens or n'
      when 'request_over_limit' then format(
        'this request could cost up to $%s, more than the ceiling of $%s for one request of this key; lower max_tokens or shorten the input',
        budget.usd(j.cost), budget.usd(j.request_ceiling_nano_usd))
    end),
    j.org_id, j.key_id, j.chain || coalesce(j.account_ids, '{}'), j.model, j.bounded_input, j.output_tokens, j.choices,
    j.request_id, j.body_hash, j.holder, case when j.cost <= 1000000000000000 then j.cost::bigint end,
    j.request_ceiling_nano_usd, j.route_ids, j.price_ids,
    j.routes, j.stale_seconds, j.idempotency_days, coalesce(j.budget_ids, '{}'), null::integer[], null::uuid
  from item i
  left join judged j on j.item = i.item
  order by i.item
$$;
revoke all on function budget_internal.prepare_admissions(jsonb, timestamptz) from public;
comment on function budget_internal.prepare_admissions(jsonb, timestamptz) is
  'Requests of a batch, resolved and priced, in order; a request that cannot be decided has a code.';
