-- budget_internal.book_closures: turn holds into spend: ledger row, hold and counters in one step.
-- Called under the period locks and the row locks of the reservations.
create or replace function budget_internal.book_closures(p_closures budget_internal.closure[], p_now timestamptz)
returns setof budget.settle_result
language plpgsql volatile
as $$
declare
  v_ids uuid[] := array(select c.reservation_id from unnest(p_closures) c);
  v_expected bigint;
  v_changed bigint;
  v_charged_ids bigint[];
  v_added bigint[];
  v_narrowed boolean;
  v_rated boolean;
  v_first_scope_ids bigint[];
  v_now_ms constant bigint := extract(epoch from p_now) * 1000;
begin
  if cardinality(v_ids) = 0 then
    return;
  end if;

  with leg as (
    select c.amount_nano_usd, r.reserved_nano_usd, cardinality(r.held_period_ids) as held_periods,
      r.held_period_ids || r.counted_period_ids as period_ids, r.price_ids[r.attempt] as price_id,
      (extract(epoch from r.reserved_at) * 1000)::bigint as since_ms,
      r.rate_scope_ids <> '{}' as rated, r.scope_ids[1] as first_scope_id
    from unnest(p_closures) c
    -- By its id, however small the table was when this was planned.
    cross join lateral (select * from budget_internal.reservations r where r.reservation_id = c.reservation_id offset 0) r
  ), counted as (
    -- A period gives back the hold only where one was taken.
    select
      i.period_id, l.price_id, sum(l.amount_nano_usd::numeric) as amount,
      coalesce(sum(l.reserved_nano_usd::numeric) filter (where i.place <= l.held_periods), 0) as held,
      count(*) filter (where i.place <= l.held_periods) as holds,
      coalesce(sum(l.since_ms) filter (where i.place <= l.held_periods), 0) as since_ms
    from leg l
    cross join lateral unnest(l.period_ids) with ordinality i (period_id, place)
    group by i.period_id, l.price_id
  ), moved as (
    -- One that is narrowed to models is charged only for them.
    select
      i.period_id, coalesce(sum(i.amount) filter (where b.models is null or m.model = any (b.models)), 0) as spent,
      sum(i.held) as held, sum(i.holds) as holds, sum(i.since_ms) as since_ms, bool_or(b.models is not null) as narrowed
    from counted i
    left join lateral (
      select b.models
      from budget_internal.periods p
      cross join lateral (select b.models from budget_internal.budgets b where b.budget_id = p.budget_id offset 0) b
      where p.period_id = i.period_id
      offset 0
    ) b on true
    left join budget_internal.prices m on b.models is not null and m.price_id = i.price_id
    group by i.period_id
  ), changed as (
    update budget_internal.periods p
    set held_nano_usd = p.held_nano_usd - m.held, spent_nano_usd = p.spent_nano_usd + m.spent,
      open_holds = p.open_holds - m.holds, open_since_ms = p.open_since_ms - m.since_ms,
      hold_ms = case
        when m.holds = 0 then p.hold_ms
        when p.hold_ms = 0 then greatest(1, v_now_ms - m.since_ms / m.holds)
        else greatest(1, (7 * p.hold_ms + (v_now_ms - m.since_ms / m.holds)) / 8)
      end
    from moved m
    where p.period_id = m.period_id and p.period_id = any (array(select o.period_id from moved o))
    returning p.period_id, m.spent::bigint as added
  )
  select
    (select count(*) from moved), (select bool_or(m.narrowed) from moved m), count(*),
    array_agg(c.period_id) filter (where c.added > 0), array_agg(c.added) filter (where c.added > 0),
    (select bool_or(l.rated) from leg l), (select array_agg(distinct l.first_scope_id) from leg l)
  into v_expected, v_narrowed, v_changed, v_charged_ids, v_added, v_rated, v_first_scope_ids
  from changed c;
  if v_changed <> v_expected then
    perform budget_internal.fail('LB902', 'a period of a reservation is missing', '');
  end if;
  -- A run comes first in its chain.
  if exists (select 1 from budget_internal.runs r where r.run_id = any (v_first_scope_ids) and r.parent_run_id is not null) then
    perform budget_internal.shrink_carves(v_first_scope_ids);
  end if;
  perform budget_internal.count_units(p_closures);
  if v_rated then
    perform budget_internal.correct_rates(p_closures);
  end if;
  perform budget_internal.record_crossings(v_charged_ids, v_added, p_now);

  return query
  with booked as (
    insert into budget_internal.ledger_entries (
      org_id, booked_at, kind, reservation_id, key_id, scope_ids, period_ids, amount_nano_usd, reserved_nano_usd, source,
      outcome, usage, provider_cost_usd, overrun, flags, model, route_id, price_id, variant, request_id, body_hash,
      reserved_at, note, rung, attempt, rate_scope_ids, rate_minute_at, rate_tokens
    )
    select
      r.org_id, p_now, c.kind, r.reservation_id, r.key_id, r.scope_ids,
      case when v_narrowed
        then budget_internal.charged_period_ids(r.held_period_ids || r.counted_period_ids, r.price_ids[r.attempt])
        else r.held_period_ids || r.counted_period_ids end,
      c.amount_nano_usd, r.reserved_nano_usd, c.source, c.outcome, c.usage, c.provider_cost_usd,
      cardinality(r.held_period_ids) > 0 and c.amount_nano_usd > r.reserved_nano_usd, c.flags, r.model, r.route_ids[r.attempt], r.price_ids[r.attempt], c.variant,
      r.request_id, r.body_hash, r.reserved_at, c.note, r.rung, r.attempt,
      nullif(r.rate_scope_ids, '{}'), r.rate_minute_at, nullif(r.rate_tokens, 0)
    from unnest(p_closures) c
    cross join lateral (select * from budget_internal.reservations r where r.reservation_id = c.reservation_id offset 0) r
    order by c.item
    returning reservation_id, kind, amount_nano_usd, reserved_nano_usd, overrun, source, flags
  )
  select
    c.item, b.kind::text, null::text,
    -- Rare, so what is wrong is looked up again.
    case when b.kind = 'charged' and b.flags && '{usage_missing,usage_unpriced,usage_rejected}' then format(
      '%s; the whole hold is charged until usage is reported that can be priced',
      case
        when 'usage_missing' = any (b.flags) then 'no usage was reported'
        when 'usage_unpriced' = any (b.flags) then 'the price that this call was admitted under has no rate for some of its usage'
        else coalesce(budget_internal.usage_defect(c.usage), 'the usage that was seen cannot be read, or it comes to more than $1000000')
      end
    ) end,
    b.reservation_id, b.amount_nano_usd::bigint, b.reserved_nano_usd::bigint,
    b.overrun, b.source, b.flags
  from booked b
  join unnest(p_closures) c on c.reservation_id = b.reservation_id;

  delete from budget_internal.reservations r where r.reservation_id = any (v_ids);
  get diagnostics v_changed = row_count;
  if v_changed <> cardinality(v_ids) then
    perform budget_internal.fail('LB902', 'a reservation was ended twice', '');
  end if;
end
$$;
revoke all on function budget_internal.book_closures(budget_internal.closure[], timestamptz) from public;
comment on function budget_internal.book_closures(budget_internal.closure[], timestamptz) is
  'Book the end of reservations; one result each.';
