-- budget_internal.judge_closures: what each reported reservation is charged. Called under the locks; changes nothing.
--   released, unsent      nothing, when nothing can have been spent; unsent: the request id may be used again
--   finished, estimated   what the provider states, where its account is trusted for it; else the pinned price of the usage;
--                         an estimate never passes the hold, but never falls below
--                         the usage that was seen (usage_seen)
--   unknown, stale        the whole hold, provisional
-- Usage that cannot be believed (one call for more than 1,000,000 USD) or priced is charged as unknown, with a flag; it is never credited.
create or replace function budget_internal.judge_closures(p_reports jsonb, p_now timestamptz)
returns setof budget_internal.closure
language sql stable
as $$
  with report as (
    -- Only the first report of a reservation can end it; what else a batch says of it is answered as a repeat.
    select distinct on ((r.value ->> 'reservation_id')::uuid)
      r.ordinality::integer as item, (r.value ->> 'reservation_id')::uuid as reservation_id,
      r.value ->> 'outcome' as outcome,
      nullif(nullif(r.value -> 'usage', 'null'), '{}') as usage,
      nullif(nullif(r.value -> 'usage_seen', 'null'), '{}') as usage_seen,
      (r.value ->> 'provider_cost_usd')::numeric as provider_cost_usd,
      r.value ->> 'service_tier' as service_tier,
      r.value -> 'clamped' is not distinct from 'true' as clamped,
      case when jsonb_typeof(r.value -> 'note') = 'object' then budget_internal.short_note(r.value -> 'note') end as note
    from jsonb_array_elements(p_reports) with ordinality r
    order by (r.value ->> 'reservation_id')::uuid, r.ordinality
  ), row_found as materialized (
    select
      p.*, row_number() over () as place, r.org_id, r.key_id, r.reserved_at, r.reserved_nano_usd, r.stale_at, r.held_period_ids, r.counted_period_ids,
      r.input_tokens, r.output_tokens::numeric * r.choices as all_output_tokens, r.features,
      cardinality(r.held_period_ids) = 0 and r.reserved_nano_usd = 0 as unheld,
      r.price_ids[r.attempt] as price_id,
      -- What the provider says that it served the call as, else what was asked for.
      coalesce(p.service_tier, r.variant) as variant,
      p.outcome = 'finished' and p.provider_cost_usd is not null and exists (
        select 1
        from budget_internal.routes t
        join budget_internal.account_settings a on a.account_id = t.account_id and a.trusts_stated_cost
        where t.route_id = r.route_ids[r.attempt]
      ) as states_cost
    from report p
    -- Here and below, each row by its id, however many the planner expects: not the whole table.
    cross join lateral (select * from budget_internal.reservations r where r.reservation_id = p.reservation_id offset 0) r
  ), valued as materialized (
    -- All in one: a price is looked up once for many.
    select v.*
    from (
      select
        array_agg(f.price_id order by f.place) as price_ids, array_agg(f.variant order by f.place) as variants,
        array_agg(f.usage order by f.place) as usages, array_agg(f.reserved_at order by f.place) as ats
      from row_found f
    ) f
    cross join lateral budget_internal.price_usages(f.price_ids, f.variants, f.usages, f.ats) v
  ), priced as (
    select f.*, v.defect as usage_defect, s.defect as seen_defect,
      case when f.states_cost then ceil(f.provider_cost_usd * 1000000000) when v.defect is null then v.cost_nano_usd end as cost,
      case when f.usage_seen is not null and s.defect is null
        then budget_internal.price_usage(f.price_id, f.variant, f.usage_seen, f.reserved_at) end as seen_cost
    from row_found f
    join valued v on v.place = f.place
    -- Of few calls a part was seen: these are priced one by one.
    cross join lateral (
      select case when f.usage_seen is not null then budget_internal.usage_defect(f.usage_seen) end as defect offset 0
    ) s
  ), judged as (
    select p.*,
      case
        when p.outcome in ('released', 'unsent') and p.usage is null then 'released'
        when p.states_cost then case when p.cost > 1000000000000000 then 'charged' else 'settled' end
        when p.outcome in ('unknown', 'stale') or p.usage is null then 'charged'
        when p.usage_defect is not null or p.seen_defect is not null or p.cost is null or p.cost > 1000000000000000 then 'charged'
        else 'settled'
      end::budget.entry_kind as kind
    from priced p
  ), classed as (
    select j.*,
      -- What holds nothing (no strict budget was in its way) is charged its worst case all the same when nothing is known
      -- of it, worked out only then.
      case
        when not j.unheld then j.reserved_nano_usd::numeric
        when j.kind = 'charged' or j.kind = 'settled' and j.outcome <> 'finished' then least(1000000000000000, coalesce(
          budget_internal.worst_case(j.price_id, j.variant, j.input_tokens, j.all_output_tokens, j.features, j.reserved_at), 0
        ))
        else 0
      end as hold
    from judged j
  ), doubted as materialized (
    select d.missing, d.impossible
    from (select array_agg(f.reservation_id order by f.item) as ids from row_found f) f
    cross join lateral budget_internal.doubtful_holds(f.ids) d
  )
  select
    c.item, c.reservation_id, c.org_id, c.kind,
    case c.kind
      when 'released' then 0
      when 'charged' then greatest(
        c.hold, case when c.seen_cost <= 1000000000000000 then c.seen_cost end
      )::bigint
      else (case
        when c.outcome = 'finished' then c.cost
        else greatest(
          least(c.cost, c.hold), case when c.seen_cost <= 1000000000000000 then c.seen_cost end
        )
      end)::bigint
    end,
    case
      when c.kind = 'released' then 'none'
      when c.kind = 'charged' then 'hold'
      when c.states_cost then 'provider_cost'
      when c.outcome = 'finished' then 'usage'
      else 'bound'
    end,
    c.outcome, c.usage, c.provider_cost_usd,
    array_remove(array[
      case when c.kind = 'charged' then 'provisional' end,
      case when c.outcome <> 'finished' and c.kind = 'settled' then 'estimated' end,
      case when c.outcome in ('finished', 'estimated') and c.usage is null and not c.states_cost then 'usage_missing' end,
      case when c.usage_defect is not null or c.seen_defect is not null or c.cost > 1000000000000000 then 'usage_rejected' end,
      case when c.usage is not null and c.usage_defect is null and c.cost is null then 'usage_unpriced' end,
      case when c.clamped then 'usage_clamped' end,
      case when c.unheld and c.counted_period_ids <> '{}' then 'unheld' end,
      case when c.stale_at < p_now and c.outcome <> 'stale' then 'late' end
    ], null),
    c.note,
    case
      when c.reserved_nano_usd < 0 or c.reservation_id = any (k.impossible) then 'impossible_amount'
      when c.reservation_id = any (k.missing) then 'missing_period'
      -- What never had a price held nothing; what held had one.
      when (c.price_id is not null or c.held_period_ids <> '{}')
        and not exists (select 1 from budget_internal.prices p where p.price_id = c.price_id offset 0) then 'missing_price'
      when not exists (select 1 from budget_internal.keys y where y.key_id = c.key_id offset 0) then 'missing_key'
    end,
    c.variant
  from classed c
  cross join doubted k
  order by c.item
$$;
revoke all on function budget_internal.judge_closures(jsonb, timestamptz) from public;
comment on function budget_internal.judge_closures(jsonb, timestamptz) is
  'Charge of each reported open reservation, or why the row cannot be settled.';
