-- budget_internal.describe_grants: the answers to requests that fit. Each holds its cost where a strict budget is on its chain, and
-- warns of the budget that is most used, where its settled spend has reached its lowest threshold.
create or replace function budget_internal.describe_grants(
  p_granted budget_internal.admission[], p_rooms budget_internal.rooms
) returns setof budget.reserve_result
language sql stable
as $$
  with warned as materialized (
    -- Names are read only where there is something to say. A limit of 0 is reached by the first that is spent.
    select w.slot, u.used, budget_internal.usage_warning(w.period_id, w.limit_nano_usd, u.used) as warning
    from unnest(p_rooms.period_ids, p_rooms.spent, p_rooms.limits, p_rooms.warn_percents) with ordinality
      w (period_id, spent, limit_nano_usd, warn_percent, slot)
    cross join lateral (select w.spent::numeric / nullif(w.limit_nano_usd, 0) as used) u
    where w.spent > 0 and w.spent * 100::numeric >= w.limit_nano_usd::numeric * w.warn_percent
  ), strict as materialized (
    select array_agg(e.slot::integer) as slots
    from unnest(p_rooms.enforcements) with ordinality e (enforcement, slot)
    where e.enforcement = 'strict'
  )
  select
    g.item, 'granted', null::text, null::text, g.reservation_id,
    case when g.slots && t.slots then coalesce(g.cost_nano_usd, 0) else 0 end,
    g.output_tokens, g.rung, g.routes, null::text, null::text, null::text, null::bigint, null::bigint, null::bigint, null::bigint,
    null::timestamptz, g.cost_nano_usd, null::integer, null::text, g.rung_changes, g.cap_output_tokens,
    case when exists (select from warned)
      then (select w.warning from warned w where w.slot = any (g.slots) order by w.used desc nulls first limit 1) end,
    null::bigint, g.budget_ids
  from unnest(p_granted) g
  cross join strict t
$$;
revoke all on function budget_internal.describe_grants(budget_internal.admission[], budget_internal.rooms) from public;
comment on function budget_internal.describe_grants(budget_internal.admission[], budget_internal.rooms) is 'Results of grants.';
