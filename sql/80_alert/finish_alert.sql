-- budget.finish_alert: how a delivery went. What failed is tried again after 10, 30, 90, 270, ... seconds, at most an hour, give or
-- take a quarter, and not before p_retry_after_seconds (at most a day); it is dead after alert_max_attempts tries, or at once
-- where trying again is useless (p_permanent). Returns the state: pending, delivered, dead.
-- locks:   the delivery row.
-- errors:  LB101 unknown delivery.
-- repeats: a delivered one stays so, whatever a slower worker says.
create or replace function budget.finish_alert(
  p_alert_id bigint, p_destination text, p_ok boolean, p_error text default null, p_retry_after_seconds integer default null,
  p_permanent boolean default false
) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := budget_internal.clock();
  v_delivery budget_internal.deliveries;
  v_most integer;
begin
  select d.* into v_delivery
  from budget_internal.deliveries d
  where d.alert_id = p_alert_id and d.destination = p_destination
  for update;
  if v_delivery.alert_id is null then
    perform budget_internal.fail('LB101', format(
      'alert_id and destination: there is no delivery of alert %s to %s', coalesce(p_alert_id::text, 'null'),
      coalesce(to_json(left(p_destination, 40))::text, 'null')
    ));
  elsif v_delivery.state = 'delivered' or (v_delivery.state = 'dead' and p_ok is not true) then
    return v_delivery.state;
  end if;

  select y.alert_max_attempts into v_most from budget_internal.policy(v_delivery.org_id, null) y;
  update budget_internal.deliveries d
  set
    state = case
      when p_ok then 'delivered' when p_permanent or d.attempts >= v_most then 'dead' else 'pending'
    end,
    delivered_at = case when p_ok then v_now end,
    claimed_by = null,
    last_error = case when p_ok is not true then left(coalesce(p_error, 'failed'), 200) end,
    next_attempt_at = v_now + make_interval(secs => greatest(
      -- Past the eighth try an hour is reached long since.
      least(3600, 10 * 3 ^ (least(greatest(d.attempts, 1), 8) - 1)) * (0.75 + random() / 2),
      least(coalesce(p_retry_after_seconds, 0), 86400)
    ))
  where d.alert_id = p_alert_id and d.destination = p_destination
  returning d.* into v_delivery;
  return v_delivery.state;
end
$$;
comment on function budget.finish_alert(bigint, text, boolean, text, integer, boolean) is
  'Say how a claimed delivery went: done, to be tried again later, or (p_permanent) dead at once. Returns its state. LB101 '
  'unknown delivery.';
revoke all on function budget.finish_alert(bigint, text, boolean, text, integer, boolean) from public;
grant execute on function budget.finish_alert(bigint, text, boolean, text, integer, boolean) to budget_reconciler, budget_admin;
