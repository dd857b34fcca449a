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
begin
  if cardinality(v_ids) = 0 then
    return;
  end if;

  with moved as (
    select
      -- A period is charged at most once by a reservation, and gives back the hold only where one was taken.
      i.period_id, sum(c.amount_nano_usd::numeric) as spent,
      sum(case when i.place <= cardinality(r.held_period_ids) then r.reserved_nano_usd::numeric else 0 end) as held
    from unnest(p_closures) c
    join budget_internal.reservations r on r.reservation_id = c.reservation_id
    cross join lateral unnest(r.held_period_ids || r.counted_period_ids) with ordinality i (period_id, place)
    group by i.period_id
  ), changed as (
    update budget_internal.periods p
    set held_nano_usd = p.held_nano_usd - m.held, spent_nano_usd = p.spent_nano_usd + m.spent
    from moved m
    where p.period_id = m.period_id
    returning 1
  )
  select (select count(*) from moved), (select count(*) from changed) into v_expected, v_changed;
  if v_changed <> v_expected then
    perform budget_internal.fail('LB902', 'a period of a reservation is missing', '');
  end if;

  return query
  with booked as (
    insert into budget_internal.ledger_entries (
      org_id, booked_at, kind, reservation_id, key_id, scope_ids, period_ids, amount_nano_usd, reserved_nano_usd, source,
      outcome, usage, provider_cost_usd, overrun, flags, model, route_id, price_id, variant, request_id, body_hash,
      reserved_at, note
    )
    select
      r.org_id, p_now, c.kind, r.reservation_id, r.key_id, r.scope_ids, r.held_period_ids || r.counted_period_ids,
      c.amount_nano_usd, r.reserved_nano_usd, c.source, c.outcome, c.usage, c.provider_cost_usd,
      c.amount_nano_usd > r.reserved_nano_usd, c.flags, r.model, r.route_ids[r.attempt], r.price_ids[r.attempt], r.variant,
      r.request_id, r.body_hash, r.reserved_at, c.note
    from unnest(p_closures) c
    join budget_internal.reservations r on r.reservation_id = c.reservation_id
    order by c.item
    returning reservation_id, kind, amount_nano_usd, reserved_nano_usd, overrun, source, flags
  )
  select
    c.item, b.kind::text, null::text, null::text, b.reservation_id, b.amount_nano_usd::bigint, b.reserved_nano_usd::bigint,
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
