-- budget_internal.defer_closures: keep malformed rows: the hold stays, the report is kept, the next try backs off, and
-- after the configured number of tries the row is quarantined.
create or replace function budget_internal.defer_closures(p_closures budget_internal.closure[], p_reports jsonb, p_now timestamptz)
returns setof budget.settle_result
language sql volatile
as $$
  with failed as (
    select
      c.item, c.reservation_id, c.defect, c.outcome, p.reconcile_max_attempts as max_attempts,
      p_reports -> (c.item - 1) as report,
      make_interval(secs => least(
        p.reconcile_cap_seconds::numeric, p.reconcile_base_seconds * power(2::numeric, least(r.reconciliation_attempts, 30))
      )::integer) as wait
    from unnest(p_closures) c
    join budget_internal.reservations r on r.reservation_id = c.reservation_id
    cross join lateral budget_internal.policy(
      r.org_id, (select k.project_id from budget_internal.keys k where k.key_id = r.key_id)
    ) p
  ), kept as (
    update budget_internal.reservations r
    set reconciliation_attempts = r.reconciliation_attempts + 1,
      reconciliation_error_type = f.defect,
      reconcile_after = p_now + f.wait,
      reconciliation_quarantined_at = coalesce(
        r.reconciliation_quarantined_at, case when r.reconciliation_attempts + 1 >= f.max_attempts then p_now end
      ),
      reported = case when f.outcome = 'stale' then r.reported else f.report end
    from failed f
    where r.reservation_id = f.reservation_id
    returning f.item, r.reservation_id, r.reserved_nano_usd, f.defect, r.reconciliation_attempts, r.reconciliation_quarantined_at
  )
  select
    k.item, 'deferred', 'reservation_malformed',
    format('reservation %s cannot be settled (%s, try %s)%s; its hold and this report are kept',
      k.reservation_id, k.defect, k.reconciliation_attempts,
      case when k.reconciliation_quarantined_at is not null then ' and is quarantined' else '' end),
    k.reservation_id, null::bigint, k.reserved_nano_usd::bigint, false, null::text, '{}'::text[]
  from kept k
$$;
revoke all on function budget_internal.defer_closures(budget_internal.closure[], jsonb, timestamptz) from public;
comment on function budget_internal.defer_closures(budget_internal.closure[], jsonb, timestamptz) is
  'Back off malformed reservations, quarantine them after the last try.';
