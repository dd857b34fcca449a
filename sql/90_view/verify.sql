-- budget.verify: the invariants as queries, one row a difference; no rows: all is well. One snapshot, locks nothing.
create or replace function budget.verify()
returns table (check_name text, subject text, expected numeric, actual numeric)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  with spent as (
    select i.period_id, sum(l.amount_nano_usd) as amount
    from budget_internal.ledger_entries l
    cross join lateral unnest(l.period_ids) i (period_id)
    group by i.period_id
  ), held as (
    select i.period_id, sum(r.reserved_nano_usd) as amount
    from budget_internal.reservations r
    cross join lateral unnest(r.held_period_ids) i (period_id)
    group by i.period_id
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
  select 'one_end_per_reservation', 'reservation ' || l.reservation_id, 1, count(*)
  from budget_internal.ledger_entries l
  where l.kind <> 'trued_up'
  group by l.reservation_id
  having count(*) > 1
  union all
  select 'one_true_up_per_reservation', 'reservation ' || l.reservation_id, 1, count(*)
  from budget_internal.ledger_entries l
  where l.kind = 'trued_up'
  group by l.reservation_id
  having count(*) > 1
  union all
  select 'open_or_ended', 'reservation ' || r.reservation_id, 0, 1
  from budget_internal.reservations r
  where exists (select 1 from budget_internal.ledger_entries l where l.reservation_id = r.reservation_id)
  union all
  -- Over a strict limit only by overruns, true-ups and lowered limits; holds and estimates never pass it.
  select 'within_limit', 'period ' || p.period_id, b.limit_nano_usd, p.spent_nano_usd::numeric + p.held_nano_usd
  from budget_internal.periods p
  join budget_internal.budgets b on b.budget_id = p.budget_id
  where b.enforcement = 'strict' and p.spent_nano_usd::numeric + p.held_nano_usd > b.limit_nano_usd
    and b.changed_at = b.created_at
    and not exists (
      select 1 from budget_internal.ledger_entries l where l.overrun and p.period_id = any (l.period_ids)
    )
  union all
  select 'chain_equals_tree', 'key ' || k.key_id, cardinality(budget_internal.resolve_chain(k.org_id, k.key_id)), cardinality(k.chain)
  from budget_internal.keys k
  where k.chain is distinct from budget_internal.resolve_chain(k.org_id, k.key_id)
$$;
comment on function budget.verify() is 'Differences between counters, ledger, holds and limits in nano-USD; no rows means none.';
revoke all on function budget.verify() from public;
grant execute on function budget.verify() to budget_reader, budget_admin, budget_reconciler;
