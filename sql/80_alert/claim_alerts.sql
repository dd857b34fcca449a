-- budget.claim_alerts: deliveries that are due, for one worker: each is its own until it says how it went (finish_alert) or the
-- lease is over. A try counts when it is claimed: one that kills its worker every time is dead in the end, too.
-- locks:   the delivery rows, skipping those of others.
-- errors:  LB101 a bad argument.
create or replace function budget.claim_alerts(
  p_worker text, p_limit integer, p_lease_seconds integer, p_destinations text[] default null
)
returns table (alert_id bigint, destination text, attempt integer, kind text, payload jsonb, created_at timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now timestamptz := budget_internal.clock();
begin
  perform budget_internal.check_name('worker', p_worker);
  if p_limit is null or p_limit not between 1 and 1000 then
    perform budget_internal.fail('LB101', 'limit must be a whole number from 1 to 1000');
  elsif p_lease_seconds is null or p_lease_seconds not between 1 and 86400 then
    perform budget_internal.fail('LB101', 'lease_seconds must be a whole number from 1 to 86400');
  end if;

  return query
  with due as (
    select d.alert_id, d.destination, d.org_id, d.attempts >= y.alert_max_attempts as spent
    from budget_internal.deliveries d
    cross join lateral budget_internal.policy(d.org_id, null) y
    where d.state = 'pending' and d.next_attempt_at <= v_now
      and (p_destinations is null or d.destination = any (p_destinations))
    order by d.next_attempt_at
    limit p_limit
    for update of d skip locked
  ), given_up as (
    -- Its last worker never came back.
    update budget_internal.deliveries d
    set state = 'dead', claimed_by = null, last_error = coalesce(d.last_error, 'the worker that had it never came back')
    from due u
    where u.spent and d.alert_id = u.alert_id and d.destination = u.destination and d.org_id = u.org_id
  ), claimed as (
    update budget_internal.deliveries d
    set attempts = d.attempts + 1, claimed_by = p_worker, next_attempt_at = v_now + make_interval(secs => p_lease_seconds)
    from due u
    where not u.spent and d.alert_id = u.alert_id and d.destination = u.destination and d.org_id = u.org_id
    returning d.alert_id, d.destination, d.attempts
  )
  select c.alert_id, c.destination, c.attempts, a.kind, a.payload, a.created_at
  from claimed c
  join budget_internal.alerts a on a.alert_id = c.alert_id
  order by c.alert_id, c.destination;
end
$$;
comment on function budget.claim_alerts(text, integer, integer, text[]) is
  'Claim up to so many deliveries that are due (null: for any destination), for so many seconds; finish each with '
  'budget.finish_alert. LB101 on bad input.';
revoke all on function budget.claim_alerts(text, integer, integer, text[]) from public;
grant execute on function budget.claim_alerts(text, integer, integer, text[]) to budget_reconciler, budget_admin;
