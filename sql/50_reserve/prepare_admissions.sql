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
      i.item, i.defect, i.request ->> 'key' as key, i.request ->> 'model' as asked_model,
      (i.request ->> 'input_tokens')::numeric::bigint as input_tokens,
      (i.request ->> 'max_output_tokens')::numeric::bigint as max_output_tokens,
      coalesce((i.request #>> '{options,n}')::numeric::integer, case when i.defect is null then 1 end) as choices,
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
    -- What has a defect is read as if it asked for nothing.
    from (select i.item, i.defect, case when i.defect is null then i.request else '{}' end as request from item i) i
  ), caller as materialized (
    -- What many requests of a batch share is looked up once: by key, by model, and by form, which is all of a request but its
    -- size. What is wrong with one is its fault: a code, and what to say.
    select q.key, c.*
    from (select distinct a.key from asked a) q
    -- By its secret, and each by its key, however many this was planned for.
    cross join lateral (
      select
        k.org_id, k.key_id, k.chain, k.allowed_models, k.request_ceiling_nano_usd, k.allow_unpriced,
        k.default_max_output_tokens, k.max_output_tokens, p.default_max_output_tokens as policy_max_output_tokens,
        p.require_output_limit, p.stale_seconds, p.idempotency_days, p.on_unknown_cost, k.first_output_tokens,
        k.run_ceiling_nano_usd as key_run_ceiling, k.run_max_steps as key_run_max_steps, k.input_bound,
        array(
          select l.scope_id from budget_internal.rate_limits l where l.scope_id in (k.key_id, k.project_id) order by l.scope_id
        ) as rate_scope_ids,
        (
          select g.scope_id
          from unnest(array[k.key_id, k.project_id, k.org_id]) with ordinality g (scope_id, place)
          where exists (select 1 from budget_internal.rungs r where r.scope_id = g.scope_id)
          order by g.place
          limit 1
        ) as ladder_scope_id,
        case
          when c.is_deleted then array['invalid_key', 'this key is not known; check the key that the gateway was called with']
          when k.disabled_at is not null then array['key_disabled', 'this key is disabled; ask its owner for another']
          when least(k.expires_at, s.expires_at) <= p_now then array['key_expired', format(
            'this key expired at %s; ask its owner for another',
            to_char(least(k.expires_at, s.expires_at) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
          )]
          when c.alive is distinct from cardinality(k.chain) or c.alive = 0 then array['budget_config_invalid',
            'the budgets of this key cannot be applied: a project, unit, member or tag above it is gone']
          when c.units > 4 then array['budget_config_invalid',
            format('the budgets of this key cannot be applied: its units are %s deep, at most 4 can be', c.units)]
        end as fault
      from budget_internal.key_secrets s
      join budget_internal.keys k on k.key_id = s.key_id
      left join lateral budget_internal.policy(k.org_id, k.project_id) p on true
      cross join lateral (
        select
          count(*) filter (where s.deleted_at is null) as alive, bool_or(s.deleted_at is not null and s.scope_id = k.key_id) as is_deleted,
          count(*) filter (where s.deleted_at is null and s.kind = 'unit') as units
        from budget_internal.scopes s
        where s.scope_id = any (k.chain)
      ) c
      where s.secret_hash = budget_internal.key_secret_hash(q.key)
      offset 0
    ) c
  ), way as materialized (
    select
      f.asked_model, f.asked_features, f.variant, f.run_name, f.run_ceiling_usd, f.run_max_steps, c.*, w.*, (u.run).run_id,
      (u.run).ended_at as run_ended_at, f.run_name is not null and (u.run).run_id is null as makes_run,
      coalesce(
        (select o.org_id from budget_internal.routes o where o.org_id = c.org_id and o.model = w.model limit 1), 0
      ) as routing_org_id
    from (
      select distinct a.key, a.asked_model, a.asked_features, a.variant, a.run_name, a.run_ceiling_usd, a.run_max_steps from asked a
    ) f
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
      t.routing_org_id, t.model, t.variant, t.features, count(*) as routes_count,
      array_agg(t.route_id) as route_ids, array_agg(t.price_id) as price_ids, array_agg(t.priority) as priorities,
      array_agg(t.weight) as weights,
      array_agg(jsonb_build_object('provider', t.provider, 'account', t.account, 'upstream_model', t.upstream_model)) as routes,
      array_agg(t.priced_model) as priced_models,
      array_agg(distinct t.account_id) as account_ids,
      min(t.max_output_tokens) as max_output_tokens,
      -- Null: a route without a known window takes the whole input.
      case when count(*) = count(t.context_window_tokens) then least(max(t.context_window_tokens), 1000000000000) end
        as context_window_tokens,
      budget_internal.plan_rates(array_agg(t.price_id), t.variant, t.features, p_now) as rates
    from (
      select q.*, r.*
      from (select distinct w.routing_org_id, w.model, w.variant, w.features from way w) q
      -- By model, and each by its key, however many this was planned for.
      cross join lateral (
        select
          p.*, m.max_output_tokens, m.context_window_tokens, coalesce(v.model, p.upstream_model) as priced_model
        from (
          select
            r.route_id, r.provider, r.upstream_model, r.account_id, r.priority, r.weight,
            (select c.name from budget_internal.scopes c where c.scope_id = r.account_id and c.org_id = r.account_org_id) as account,
            budget_internal.price_in_force(r.provider, r.upstream_model, p_now) as price_id
          from budget_internal.routes r
          where r.model = q.model and r.org_id = q.routing_org_id
          offset 0
        ) p
        left join budget_internal.prices v on v.price_id = p.price_id
        -- An alias has the limits of its model.
        left join budget_internal.models m on m.provider = p.provider and m.model = coalesce(v.model, p.upstream_model)
        offset 0
      ) r
      order by q.routing_org_id, q.model, q.variant, q.features, r.priority, r.route_id
    ) t
    group by t.routing_org_id, t.model, t.variant, t.features
  ), terms as materialized (
    select
      w.key, w.asked_model, w.asked_features, w.variant, w.run_name, w.run_ceiling_usd, w.run_max_steps,
      w.rung_place, w.rung, w.action, w.rung_changes, w.org_id, w.key_id, w.model as way_model, w.features, w.input_bound,
      w.first_output_tokens, w.stale_seconds, w.idempotency_days, w.rate_scope_ids, w.run_id, w.allow_unpriced,
      w.request_ceiling_nano_usd, o.routes_count, o.route_ids, o.price_ids, o.priorities, o.weights, o.routes, o.context_window_tokens,
      array_remove(w.run_id || w.chain || coalesce(o.account_ids, '{}'), null) as scope_ids,
      coalesce(b.budget_ids, '{}') as budget_ids,
      -- No strict budget, no estimate.
      case when b.strict or w.makes_run or w.request_ceiling_nano_usd is not null then o.rates end as rates,
      b.strict or w.makes_run or w.request_ceiling_nano_usd is not null or cardinality(w.rate_scope_ids) > 0 as needs_input,
      (b.strict or w.makes_run) and w.on_unknown_cost = 'refuse' as needs_cost,
      coalesce(w.default_max_output_tokens, w.policy_max_output_tokens, least(o.max_output_tokens, 8192)) as default_output_tokens,
      -- What nobody limits is refused, or goes by what is spent.
      w.require_output_limit and w.default_max_output_tokens is null and w.policy_max_output_tokens is null as needs_limit,
      w.on_unknown_cost,
      least(
        w.max_output_tokens, o.max_output_tokens, w.rung_max_output_tokens,
        -- The most that usage can have: what is added up of it stays in range, and one request does not fail its neighbours.
        1000000000000
      ) as most_output_tokens,
      coalesce((w.run_ceiling_usd * 1000000000)::bigint, w.key_run_ceiling::bigint) as run_limit_nano_usd,
      coalesce(w.run_max_steps, w.key_run_max_steps) as run_max_grants,
      coalesce(w.fault, case
        when cardinality(b.budget_ids) + w.makes_run::integer > 10 then array['budget_config_invalid', format(
          'the budgets of this key cannot be applied: %s budgets on its chain, at most 10 can be',
          cardinality(b.budget_ids) + w.makes_run::integer
        )]
        when w.run_ended_at is not null
          then array['invalid_request', format('run %s has ended; use a new run id', to_json(w.run_name))]
        when w.run_ceiling_usd * 1000000000 > w.key_run_ceiling then array['invalid_request', format(
          'run.ceiling_usd is $%s, but a run of this key may cost at most $%s', w.run_ceiling_usd, budget.usd(w.key_run_ceiling)
        )]
        when w.run_max_steps > w.key_run_max_steps then array['invalid_request', format(
          'run.max_steps is %s, but a run of this key may take at most %s', w.run_max_steps, w.key_run_max_steps
        )]
        when w.allowed_models is not null and (w.model = any (w.allowed_models)) is not true then array['model_not_allowed', format(
          'this key may not use model %s; it may use %s', to_json(w.model), array_to_string(w.allowed_models, ', ')
        )]
        when o.route_ids is null
          then array['model_not_found', format('model %s has no route; names are exact, GET /v1/models lists them', to_json(w.model))]
      end) as fault
    from way w
    left join offer o on o.routing_org_id = w.routing_org_id and o.model = w.model and o.variant = w.variant and o.features = w.features
    cross join lateral (
      select array_agg(b.budget_id order by l.place, b.budget_id) as budget_ids, coalesce(bool_or(b.enforcement = 'strict'), false) as strict
      from unnest(w.run_id || w.chain || coalesce(o.account_ids, '{}')) with ordinality l (scope_id, place)
      -- By its scope, however few there were when this was planned.
      cross join lateral (
        select b.budget_id, b.enforcement, b.models
        from budget_internal.budgets b
        where b.scope_id = l.scope_id and b.deleted_at is null
        offset 0
      ) b
      where b.models is null or b.models && o.priced_models
    ) b
  ), priced as (
    select
      a.item, a.defect, coalesce(t.way_model, a.asked_model) as model, a.choices, a.request_id, a.body_hash, a.holder, t.*,
      b.way_tokens, s.bounded_input, s.output_tokens, o.cap_output_tokens, t.needs_limit and a.max_output_tokens is null as unlimited,
      budget_internal.worst_cost(t.rates, s.bounded_input, s.output_tokens::numeric * a.choices) as cost,
      -- Routes of one priority in a random order, each first as often as its weight says.
      case when t.routes_count > 1 then budget_internal.draw_routes(t.priorities, t.weights) end as places
    from asked a
    left join terms t on t.key = a.key and t.asked_model = a.asked_model and t.asked_features = a.asked_features
      and t.variant = a.variant and t.run_name is not distinct from a.run_name
      and t.run_ceiling_usd is not distinct from a.run_ceiling_usd and t.run_max_steps is not distinct from a.run_max_steps
    cross join lateral (
      -- The bound by the key's own way of measuring, where the caller gave one; bytes are the bound that always holds.
      select
        case when t.input_bound in ('chars3', 'bytes4')
          then coalesce((a.input_bounds ->> t.input_bound)::numeric::bigint, a.input_tokens) else a.input_tokens
        end as bound,
        case when t.input_bound = 'tokenizer' then (a.input_bounds ->> 'tokenizer')::numeric::bigint end as tokenizer_tokens
    ) n
    cross join lateral (
      select case when t.rung_place = 0 then n.bound else least(n.tokenizer_tokens, n.bound) end as way_tokens
    ) b
    cross join lateral (
      -- One cap for the whole plan: the smallest that every route, the key, the rung and the caller allow.
      select least(coalesce(a.max_output_tokens, t.default_output_tokens), t.most_output_tokens) as cap_output_tokens
    ) o
    cross join lateral (
      select
        -- Each of many inputs has the window to itself.
        case when a.defect is null then coalesce(least(b.way_tokens, t.context_window_tokens * a.inputs), 0) end as bounded_input,
        -- A hold that grows starts with a first slice.
        least(o.cap_output_tokens, case when a.grows then t.first_output_tokens end) as output_tokens
    ) s
    where case
      when t.rung_place = 1 then n.tokenizer_tokens < n.bound
      -- Who has not counted yet, though it could, is to do so before the ladder counts.
      when t.rung_place > 1 then (t.input_bound = 'tokenizer' and a.input_bounds -> 'tokenizer' = 'null') is not true
      else true
    end
    -- Not pulled up: each is priced, and its routes are drawn, once.
    offset 0
  ), judged as (
    select p.*, case
      when p.defect is not null then array['invalid_request', p.defect]
      when p.key is null then array['invalid_key', 'this key is not known; check the key that the gateway was called with']
      when p.fault is not null then p.fault
      when p.way_tokens is null and p.needs_input
        then array['invalid_request', 'input_tokens is missing: a strict budget, a ceiling or a token limit needs it']
      when p.cost is null and p.needs_cost and not p.allow_unpriced then array['model_unpriced', format(
        'model %s has no reviewed price for what this request may use, so its cost cannot be held', to_json(p.model)
      )]
      when p.unlimited and p.needs_cost
        then array['output_limit_required', 'the request sets no output limit and none is configured; set max_tokens']
      when p.cost > 1000000000000000 then array['invalid_request',
        'this request could cost more than $1000000, which is out of range; lower max_tokens or n']
    end as verdict
    from priced p
  )
  select
    j.item, coalesce(j.rung_place, 0), j.rung, coalesce(j.action, 'grant'), j.rung_changes, j.verdict[1], j.verdict[2],
    j.org_id, j.key_id, j.scope_ids, j.model, j.bounded_input, j.output_tokens,
    j.choices, j.features, j.request_id, j.body_hash, j.holder,
    -- Configured to go by what is spent: a cap nobody set is not a bound.
    case when j.cost <= 1000000000000000 and not (j.unlimited and j.on_unknown_cost = 'check') then j.cost::bigint end,
    j.variant, case when j.cap_output_tokens > j.output_tokens then j.cap_output_tokens end, j.allow_unpriced, j.request_ceiling_nano_usd,
    case when j.places is null then j.route_ids else budget_internal.reordered(j.route_ids, j.places) end,
    case when j.places is null then j.price_ids else budget_internal.reordered(j.price_ids, j.places) end,
    to_jsonb(case when j.places is null then j.routes else budget_internal.reordered(j.routes, j.places) end),
    j.stale_seconds, j.idempotency_days, coalesce(j.budget_ids, '{}'), coalesce(j.rate_scope_ids, '{}'), j.run_name, j.run_id,
    j.run_limit_nano_usd, j.run_max_grants, null::integer[], null::uuid, j.input_bound = 'tokenizer'
  from judged j
$$;
revoke all on function budget_internal.prepare_admissions(jsonb, timestamptz) from public;
comment on function budget_internal.prepare_admissions(jsonb, timestamptz) is
  'Requests of a batch, resolved and priced, each in every way it may be granted; a way that cannot be has a code.';
