-- budget_internal.prepare_admissions: read, resolve and price the requests of a batch, each in every way that it may be
-- granted: as asked, with a tighter input bound, then as each rung of its ladder has it. Takes no lock and changes nothing:
-- all it reads is configuration, and limits are read again under the locks. A way that cannot be granted has a code.
create or replace function budget_internal.prepare_admissions(p_requests jsonb, p_now timestamptz)
returns setof budget_internal.admission
language sql stable
as $$
  with item as materialized (
    select r.ordinality::integer as item, r.value as request, budget_internal.request_defect(r.value) as defect
    from jsonb_array_elements(p_requests) with ordinality r
  ), asked as materialized (
    select
      i.item, i.request ->> 'key' as key, i.request ->> 'model' as asked_model,
      (i.request ->> 'input_tokens')::numeric::bigint as input_tokens,
      (i.request ->> 'max_output_tokens')::numeric::bigint as max_output_tokens,
      coalesce((i.request #>> '{options,n}')::numeric::integer, 1) as choices,
      coalesce((i.request #>> '{options,inputs}')::numeric::integer, 1) as inputs,
      i.request ->> 'request_id' as request_id,
      -- Who gives no hash of the body is held to what was asked.
      coalesce(i.request #>> '{options,body_hash}', md5((jsonb_build_array(
        i.request -> 'model', i.request -> 'input_tokens', i.request -> 'max_output_tokens', i.request #> '{options,n}',
        i.request #> '{options,features}'
      ) || coalesce(i.request #> '{options,uses}', '[]'))::text)) as body_hash,
      i.request #>> '{options,holder}' as holder,
      case when i.request #> '{options,features}' <> '[]' or i.request #> '{options,uses}' <> '{}'
        then budget_internal.asked_features(i.request #> '{options,features}', i.request #> '{options,uses}') else '{}'
      end as asked_features,
      i.request #> '{options,input_bounds}' as input_bounds,
      i.request #>> '{options,run,id}' as run_name,
      (i.request #>> '{options,run,ceiling_usd}')::numeric as run_ceiling_usd,
      (i.request #>> '{options,run,max_steps}')::numeric::bigint as run_max_steps,
      coalesce((i.request #>> '{options,grow}')::boolean, false) as grows,
      coalesce(i.request #>> '{options,service_tier}', 'standard') as variant
    from item i
    where i.defect is null
  ), caller as materialized (
    -- What many requests of a batch share is looked up once: by key, by model, and by form, which is all of a request but its size.
    select
      q.key, k.org_id, k.key_id, k.chain, k.allowed_models, k.request_ceiling_nano_usd, k.disabled_at,
      k.allow_unpriced, least(k.expires_at, s.expires_at) as expires_at, k.default_max_output_tokens,
      k.max_output_tokens as key_max_output_tokens, p.default_max_output_tokens as policy_max_output_tokens,
      p.require_output_limit, p.stale_seconds, p.idempotency_days, p.on_unknown_cost, c.is_deleted, k.first_output_tokens,
      k.run_ceiling_nano_usd as key_run_ceiling, k.run_max_steps as key_run_max_steps, k.input_bound, c.alive, c.units,
      array(
        select l.scope_id from budget_internal.rate_limits l where l.scope_id in (k.key_id, k.project_id) order by l.scope_id
      ) as rate_scope_ids,
      (
        select g.scope_id
        from unnest(array[k.key_id, k.project_id, k.org_id]) with ordinality g (scope_id, place)
        where exists (select 1 from budget_internal.rungs r where r.scope_id = g.scope_id)
        order by g.place
        limit 1
      ) as ladder_scope_id
    from (select distinct a.key from asked a) q
    join budget_internal.key_secrets s on s.secret_hash = budget_internal.key_secret_hash(q.key)
    join budget_internal.keys k on k.key_id = s.key_id
    left join lateral budget_internal.policy(k.org_id, k.project_id) p on true
    cross join lateral (
      select
        count(*) filter (where s.deleted_at is null) as alive, bool_or(s.deleted_at is not null and s.scope_id = k.key_id) as is_deleted,
        count(*) filter (where s.deleted_at is null and s.kind = 'unit') as units
      from budget_internal.scopes s
      where s.scope_id = any (k.chain)
    ) c
  ), way as materialized (
    select
      f.asked_model, f.asked_features, f.variant, f.run_name, c.*, w.*, (u.run).run_id, (u.run).ended_at as run_ended_at,
      f.run_name is not null and (u.run).run_id is null as makes_run,
      coalesce(
        (select o.org_id from budget_internal.routes o where o.org_id = c.org_id and o.model = w.model limit 1), 0
      ) as routing_org_id
    from (select distinct a.key, a.asked_model, a.asked_features, a.variant, a.run_name from asked a) f
    join caller c on c.key = f.key
    cross join lateral (
      select case when f.run_name is not null then budget_internal.named_run(c.key_id, f.run_name) end as run offset 0
    ) u
    cross join lateral (
      select 0 as rung_place, null::text as rung, 'grant' as action, null::jsonb as rung_changes, f.asked_model as model,
        null::bigint as rung_max_output_tokens, f.asked_features as features
      union all
      select 1, null, 'grant', null, f.asked_model, null, f.asked_features
      where c.input_bound = 'tokenizer'
      union all
      select
        1 + r.place, r.name, r.action,
        jsonb_strip_nulls(jsonb_build_object(
          'model', r.model, 'max_output_tokens', r.max_output_tokens, 'wait_seconds', r.wait_seconds,
          'features_off', case when cardinality(r.features_off) > 0 then to_jsonb(r.features_off) end
        )),
        coalesce(r.model, f.asked_model), r.max_output_tokens,
        array(select f from unnest(f.asked_features) f where f <> all (r.features_off))
      from budget_internal.rungs r
      where r.scope_id = c.ladder_scope_id
    ) w
  ), offer as materialized (
    select
      t.routing_org_id, t.model, count(*) as routes_count,
      array_agg(t.route_id) as route_ids, array_agg(t.price_id) as price_ids, array_agg(t.priority) as priorities,
      array_agg(t.weight) as weights,
      array_agg(jsonb_build_object('provider', t.provider, 'account', t.account, 'upstream_model', t.upstream_model)) as routes,
      array_agg(distinct t.priced_model) as priced_models,
      array_agg(distinct t.account_id) as account_ids,
      min(t.max_output_tokens) as model_max_output,
      -- Null: a route without a known window takes the whole input.
      case when count(*) = count(t.context_window_tokens) then least(max(t.context_window_tokens), 1000000000000) end
        as context_window_tokens
    from (
      select
        q.routing_org_id, q.model, r.route_id, r.provider, r.upstream_model, r.account_id, r.priority, r.weight, c.name as account,
        m.max_output_tokens, m.context_window_tokens, i.price_id, coalesce(v.model, r.upstream_model) as priced_model
      from (select distinct w.routing_org_id, w.model from way w) q
      join budget_internal.routes r on r.model = q.model and r.org_id = q.routing_org_id
      join budget_internal.scopes c on c.scope_id = r.account_id and c.org_id = r.account_org_id
      cross join lateral (
        select budget_internal.price_in_force(r.provider, r.upstream_model, p_now) as price_id offset 0
      ) i
      left join budget_internal.prices v on v.price_id = i.price_id
      -- An alias has the limits of its model.
      left join budget_internal.models m on m.provider = r.provider and m.model = coalesce(v.model, r.upstream_model)
      order by q.routing_org_id, q.model, r.priority, r.route_id
    ) t
    group by t.routing_org_id, t.model
  ), chained as materialized (
    select
      w.*, o.routes_count, o.route_ids, o.price_ids, o.priorities, o.weights, o.routes, o.model_max_output, o.context_window_tokens,
      array_remove(w.run_id || w.chain || coalesce(o.account_ids, '{}'), null) as scope_ids,
      coalesce(b.budget_ids, '{}') as budget_ids, coalesce(b.strict, false) or w.makes_run as strict,
      -- No strict budget, no estimate.
      o.route_ids is not null and (b.strict or w.makes_run or w.request_ceiling_nano_usd is not null) as estimated
    from way w
    left join offer o on o.routing_org_id = w.routing_org_id and o.model = w.model
    cross join lateral (
      select array_agg(b.budget_id order by l.place, b.budget_id) as budget_ids, bool_or(b.enforcement = 'strict') as strict
      from unnest(w.run_id || w.chain || coalesce(o.account_ids, '{}')) with ordinality l (scope_id, place)
      -- By its scope, however few there were when this was planned.
      cross join lateral (
        select b.* from budget_internal.budgets b where b.scope_id = l.scope_id and b.deleted_at is null offset 0
      ) b
      where b.models is null or b.models && o.priced_models
    ) b
  ), rated as materialized (
    select r.price_ids, r.variant, r.features, budget_internal.plan_rates(r.price_ids, r.variant, r.features, p_now) as rates
    from (select distinct c.price_ids, c.variant, c.features from chained c where c.estimated offset 0) r
  ), terms as materialized (
    select c.*, r.rates
    from chained c
    left join rated r on c.estimated and r.price_ids = c.price_ids and r.variant = c.variant and r.features = c.features
  ), sized as (
    select
      a.item, a.max_output_tokens, a.choices, a.request_id, a.body_hash, a.holder, a.run_ceiling_usd, a.run_max_steps, t.*,
      b.way_tokens, o.cap_output_tokens,
      -- Each of many inputs has the window to itself.
      coalesce(least(b.way_tokens, t.context_window_tokens * a.inputs), 0) as bounded_input,
      -- A hold that grows starts with a first slice.
      least(o.cap_output_tokens, case when a.grows then t.first_output_tokens end) as output_tokens,
      -- Routes of one priority in a random order, each first as often as its weight says.
      case when t.routes_count > 1 then budget_internal.draw_routes(t.priorities, t.weights) end as places
    from asked a
    left join terms t on t.key = a.key and t.asked_model = a.asked_model and t.asked_features = a.asked_features
      and t.variant = a.variant and t.run_name is not distinct from a.run_name
    cross join lateral (
      -- The bound by the key's own way of measuring, where the caller gave one; bytes are the bound that always holds.
      select
        case when t.input_bound in ('chars3', 'bytes4')
          then coalesce((a.input_bounds ->> t.input_bound)::numeric::bigint, a.input_tokens) else a.input_tokens
        end as bound,
        case when t.input_bound = 'tokenizer' then (a.input_bounds ->> 'tokenizer')::numeric::bigint end as tokenizer_tokens
      offset 0
    ) n
    cross join lateral (
      select case when t.rung_place = 0 then n.bound else least(n.tokenizer_tokens, n.bound) end as way_tokens
    ) b
    cross join lateral (
      -- One cap for the whole plan: the smallest that every route, the key, the rung and the caller allow.
      select least(
        coalesce(a.max_output_tokens, t.default_max_output_tokens, t.policy_max_output_tokens, least(t.model_max_output, 8192)),
        t.key_max_output_tokens, t.model_max_output, t.rung_max_output_tokens,
        -- The most that usage can have: what is added up of it stays in range, and one request does not fail its neighbours.
        1000000000000
      ) as cap_output_tokens
    ) o
    where case
      when t.rung_place = 1 then n.tokenizer_tokens < n.bound
      -- Who has not counted yet, though it could, is to do so before the ladder counts.
      when t.rung_place > 1 then (t.input_bound = 'tokenizer' and a.input_bounds -> 'tokenizer' = 'null') is not true
      else true
    end
    -- Not pulled up: routes are drawn once.
    offset 0
  ), priced as (
    select s.*, budget_internal.worst_cost(s.rates, s.bounded_input, s.output_tokens::numeric * s.choices) as cost
    from sized s
    -- Not pulled up: each is priced once.
    offset 0
  ), judged as (
    select p.*,
      case
        when p.key_id is null or p.is_deleted then 'invalid_key'
        when p.disabled_at is not null then 'key_disabled'
        when p.expires_at <= p_now then 'key_expired'
        when p.alive is distinct from cardinality(p.chain) or p.alive = 0 or p.units > 4
          or cardinality(p.budget_ids) + p.makes_run::integer > 10 then 'budget_config_invalid'
        when p.run_ended_at is not null
          or p.run_ceiling_usd * 1000000000 > p.key_run_ceiling
          or p.run_max_steps > p.key_run_max_steps then 'invalid_request'
        when p.allowed_models is not null and (p.model = any (p.allowed_models)) is not true then 'model_not_allowed'
        when p.route_ids is null then 'model_not_found'
        when p.way_tokens is null and (
          p.strict or p.request_ceiling_nano_usd is not null or cardinality(p.rate_scope_ids) > 0
        ) then 'invalid_request'
        when p.strict and p.cost is null and not p.allow_unpriced and p.on_unknown_cost = 'refuse' then 'model_unpriced'
        when p.strict and p.on_unknown_cost = 'refuse' and p.require_output_limit and p.max_output_tokens is null
          and p.default_max_output_tokens is null and p.policy_max_output_tokens is null then 'output_limit_required'
        when p.cost > 1000000000000000 then 'invalid_request'
      end as code
    from priced p
  )
  select
    i.item, coalesce(j.rung_place, 0), j.rung, coalesce(j.action, 'grant'), j.rung_changes,
    case when i.defect is not null then 'invalid_request' else j.code end,
    coalesce(i.defect, case j.code
      when 'invalid_key' then 'this key is not known; check the key that the gateway was called with'
      when 'key_disabled' then 'this key is disabled; ask its owner for another'
      when 'key_expired' then format('this key expired at %s; ask its owner for another', to_char(j.expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
      when 'budget_config_invalid' then case
        when j.alive is distinct from cardinality(j.chain) or j.alive = 0
          then 'the budgets of this key cannot be applied: a project, unit, member or tag above it is gone'
        when j.units > 4 then format('the budgets of this key cannot be applied: its units are %s deep, at most 4 can be', j.units)
        else format('the budgets of this key cannot be applied: %s budgets on its chain, at most 10 can be',
          cardinality(j.budget_ids) + j.makes_run::integer)
      end
      when 'model_not_allowed' then format('this key may not use model %s; it may use %s', to_json(j.model), array_to_string(j.allowed_models, ', '))
      when 'model_not_found' then format('model %s has no route; names are exact, GET /v1/models lists them', to_json(j.model))
      when 'output_limit_required' then 'the request sets no output limit and none is configured; set max_tokens'
      when 'model_unpriced' then format('model %s has no reviewed price for what this request may use, so its cost cannot be held', to_json(j.model))
      when 'invalid_request' then case
        when j.run_ended_at is not null then format('run %s has ended; use a new run id', to_json(j.run_name))
        when j.run_ceiling_usd * 1000000000 > j.key_run_ceiling then format(
          'run.ceiling_usd is $%s, but a run of this key may cost at most $%s', j.run_ceiling_usd, budget.usd(j.key_run_ceiling))
        when j.run_max_steps > j.key_run_max_steps then format(
          'run.max_steps is %s, but a run of this key may take at most %s', j.run_max_steps, j.key_run_max_steps)
        when j.way_tokens is null then 'input_tokens is missing: a strict budget, a ceiling or a token limit needs it'
        else 'this request could cost more than $1000000, which is out of range; lower max_tokens or n'
      end
    end),
    j.org_id, j.key_id, j.scope_ids, j.model, j.bounded_input, j.output_tokens,
    j.choices, j.features, j.request_id, j.body_hash, j.holder,
    case when j.cost <= 1000000000000000 and not (
      -- Configured to go by what is spent: a cap nobody set is not a bound.
      j.on_unknown_cost = 'check' and j.require_output_limit and j.max_output_tokens is null
      and j.default_max_output_tokens is null and j.policy_max_output_tokens is null
    ) then j.cost::bigint end,
    j.variant, case when j.cap_output_tokens > j.output_tokens then j.cap_output_tokens end, j.allow_unpriced, j.request_ceiling_nano_usd,
    case when j.places is null then j.route_ids else budget_internal.reordered(j.route_ids, j.places) end,
    case when j.places is null then j.price_ids else budget_internal.reordered(j.price_ids, j.places) end,
    to_jsonb(case when j.places is null then j.routes else budget_internal.reordered(j.routes, j.places) end),
    j.stale_seconds, j.idempotency_days, coalesce(j.budget_ids, '{}'), coalesce(j.rate_scope_ids, '{}'), j.run_name, j.run_id,
    coalesce((j.run_ceiling_usd * 1000000000)::bigint, j.key_run_ceiling::bigint),
    coalesce(j.run_max_steps, j.key_run_max_steps), null::integer[], null::uuid, j.input_bound = 'tokenizer'
  from item i
  left join judged j on j.item = i.item
$$;
revoke all on function budget_internal.prepare_admissions(jsonb, timestamptz) from public;
comment on function budget_internal.prepare_admissions(jsonb, timestamptz) is
  'Requests of a batch, resolved and priced, each in every way it may be granted; a way that cannot be has a code.';
