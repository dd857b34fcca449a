-- budget.verify: the invariants as queries, one row a difference; no rows: all is well. One snapshot, locks nothing.
create or replace function budget.verify()
returns table (check_name text, subject text, expected numeric, actual numeric)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  with booked as (
    select i.period_id, l.amount_nano_usd as amount
    from budget_internal.ledger_entries l
    cross join lateral unnest(l.period_ids) i (period_id)
    union all
    -- What retention has dropped.
    select p.period_id, p.retired_nano_usd from budget_internal.periods p where p.retired_nano_usd <> 0
  ), spent as (
    select b.period_id, sum(b.amount) as amount
    from booked b
    group by b.period_id
  ), holding as (
    select i.period_id, r.reserved_nano_usd as amount, 1 as holds, (extract(epoch from r.reserved_at) * 1000)::bigint as since_ms
    from budget_internal.reservations r
    cross join lateral unnest(r.held_period_ids) i (period_id)
    union all
    -- What a parent run holds for the runs carved from it.
    select p.period_id, r.carved_nano_usd, 0, 0
    from budget_internal.runs r
    join budget_internal.runs u on u.run_id = r.parent_run_id
    join budget_internal.periods p on p.budget_id = u.budget_id
  ), held as (
    select h.period_id, sum(h.amount) as amount, sum(h.holds) as holds, sum(h.since_ms) as since_ms
    from holding h
    group by h.period_id
  )
  select 'spent_equals_ledger', 'period ' || coalesce(p.period_id, s.period_id), coalesce(s.amount, 0), coalesce(p.spent_nano_usd, 0)
  from budget_internal.periods p
  full join spent s on s.period_id = p.period_id
  where coalesce(s.amount, 0) is distinct from coalesce(p.spent_nano_usd, 0)
  union all
  select 'held_equals_reservations', 'period ' || coalesce(p.period_id, h.period_id), coalesce(h.amount, 0), coalesce(p.held_nano_usd, 0)
  from budget_internal.periods p
  full join held h on h.period_id = p.period_id
  where coalesce(h.amount, 0) is distinct from coalesce(p.held_nano_usd, 0)
  union all
  select 'open_holds_equal_reservations', 'period ' || p.period_id, coalesce(h.holds, 0), p.open_holds
  from budget_internal.periods p
  left join held h on h.period_id = p.period_id
  where (coalesce(h.holds, 0), coalesce(h.since_ms, 0)) is distinct from (p.open_holds, p.open_since_ms)
  union all
  select 'carve_equals_what_the_child_has_left', 'run ' || r.run_id,
    case when r.ended_at is not null then p.held_nano_usd else greatest(b.limit_nano_usd - p.spent_nano_usd, p.held_nano_usd) end,
    r.carved_nano_usd
  from budget_internal.runs r
  join budget_internal.budgets b on b.budget_id = r.budget_id
  join budget_internal.periods p on p.budget_id = r.budget_id
  where r.parent_run_id is not null and r.carved_nano_usd is distinct from
    case when r.ended_at is not null then p.held_nano_usd else greatest(b.limit_nano_usd - p.spent_nano_usd, p.held_nano_usd) end
  union all
  select 'unit_spend_equals_ledger', 'unit ' || coalesce(u.unit_id, l.unit_id) || ' ' || coalesce(u.month_on, l.month_on),
    coalesce(l.amount, 0) + coalesce(u.retired_nano_usd, 0), coalesce(u.spent_nano_usd, 0)
  from budget_internal.unit_months u
  full join (
    select s.scope_id as unit_id, date_trunc('month', e.reserved_at at time zone 'UTC')::date as month_on, sum(e.amount_nano_usd) as amount
    from budget_internal.ledger_entries e
    join budget_internal.scopes s on s.scope_id = any (e.scope_ids) and s.kind = 'unit'
    group by s.scope_id, date_trunc('month', e.reserved_at at time zone 'UTC')::date
  ) l on l.unit_id = u.unit_id and l.month_on = u.month_on
  where coalesce(l.amount, 0) + coalesce(u.retired_nano_usd, 0) is distinct from coalesce(u.spent_nano_usd, 0)
  union all
  select 'steps_within_cap', 'period ' || p.period_id, b.max_grants, p.grants
  from budget_internal.periods p
  join budget_internal.budgets b on b.budget_id = p.budget_id
  where p.grants > b.max_grants
  union all
  select 'one_end_per_reservation', 'reservation ' || l.reservation_id, 1, count(*)
  from budget_internal.ledger_entries l
  where l.kind::text not in ('leg', 'trued_up')
  group by l.reservation_id
  having count(*) > 1
  union all
  select 'one_true_up_per_reservation', 'reservation ' || l.reservation_id, 1, count(*)
  from budget_internal.ledger_entries l
  where l.kind = 'trued_up'
  group by l.reservation_id
  having count(*) > 1
  union all
  -- Within a day, the shortest time for which an answer is kept, a request id has one call; one that was never sent does not count.
  select 'one_call_per_request_id', 'request id ' || c.request_id || ' of key ' || c.key_id, 1, count(*) + 1
  from (
    select
      a.key_id, a.request_id, a.reserved_at,
      max(a.ended_at) over (
        partition by a.key_id, a.request_id order by a.reserved_at, a.reservation_id rows between unbounded preceding and 1 preceding
      ) as last_ended_at
    from (
      select l.key_id, l.request_id, l.reservation_id, l.reserved_at, l.booked_at as ended_at
      from budget_internal.ledger_entries l
      where l.request_id is not null and l.kind::text not in ('leg', 'trued_up') and l.outcome is distinct from 'unsent'
      union all
      select r.key_id, r.request_id, r.reservation_id, r.reserved_at, 'infinity'
      from budget_internal.reservations r
      where r.request_id is not null
    ) a
  ) c
  where c.reserved_at < c.last_ended_at + interval '1 day'
  group by c.key_id, c.request_id
  union all
  select 'open_or_ended', 'reservation ' || r.reservation_id, 0, 1
  from budget_internal.reservations r
  where exists (
    select 1 from budget_internal.ledger_entries l where l.reservation_id = r.reservation_id and l.kind::text <> 'leg'
  )
  union all
  -- Over a strict limit only by overruns, true-ups and lowered limits; holds and estimates never pass it. Of a period with rows that
  -- retention has dropped it cannot be told any more.
  select 'within_limit', 'period ' || p.period_id, b.limit_nano_usd + p.carried_nano_usd + p.forgiven_nano_usd, p.spent_nano_usd::numeric + p.held_nano_usd
  from budget_internal.periods p
  join budget_internal.budgets b on b.budget_id = p.budget_id
  where b.enforcement = 'strict' and p.spent_nano_usd::numeric + p.held_nano_usd > b.limit_nano_usd + p.carried_nano_usd + p.forgiven_nano_usd
    and b.raise_nano_usd is null and b.changed_at = b.created_at and p.retired_nano_usd = 0
    and not exists (
      select 1 from budget_internal.ledger_entries l where (l.overrun or 'unheld' = any (l.flags)) and p.period_id = any (l.period_ids)
    )
  union all
  select 'chain_equals_tree', 'key ' || k.key_id, cardinality(budget_internal.resolve_chain(k.org_id, k.key_id)), cardinality(k.chain)
  from budget_internal.keys k
  where k.chain is distinct from budget_internal.resolve_chain(k.org_id, k.key_id)
$$;
comment on function budget.verify() is 'Differences between counters, ledger, holds and limits in nano-USD; no rows means none.';
revoke all on function budget.verify() from public;
grant execute on function budget.verify() to budget_reader, budget_admin, budget_reconciler;
