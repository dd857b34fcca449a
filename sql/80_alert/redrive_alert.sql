-- budget.redrive_alert: try an alert again, at once and with all its tries: what is dead, or waits for its next try. Without a
-- destination, every one of it that is configured. Named, also one that the alert was never for.
-- Returns how many deliveries are due again; 0: delivered, or being delivered now.
-- locks:  the delivery rows.
-- errors: LB101 unknown alert, destination that is not configured.
create or replace function budget.redrive_alert(p_alert_id bigint, p_destination text default null) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := budget_internal.clock();
  v_org_id bigint;
  v_count integer;
begin
  select a.org_id into v_org_id from budget_internal.alerts a where a.alert_id = p_alert_id;
  if v_org_id is null then
    perform budget_internal.fail('LB101', format('alert_id: there is no alert %s', coalesce(p_alert_id::text, 'null')));
  elsif p_destination is not null and not exists (
    select 1 from budget_internal.alert_destinations d where d.destination = p_destination
  ) then
    perform budget_internal.fail('LB101', format(
      'destination: no gateway delivers to %s', to_json(left(p_destination, 40))
    ), 'Destinations are configured where the gateway runs; see docs/alerts.md.');
  end if;

  insert into budget_internal.deliveries as d (org_id, alert_id, destination, next_attempt_at)
  select v_org_id, p_alert_id, c.destination, v_now
  from budget_internal.alert_destinations c
  where c.destination = p_destination or (p_destination is null and exists (
    select 1 from budget_internal.deliveries o where o.alert_id = p_alert_id and o.destination = c.destination
  ))
  on conflict (alert_id, destination, org_id) do update
  set state = 'pending', attempts = 0, next_attempt_at = v_now
  where d.state = 'dead' or (d.state = 'pending' and d.claimed_by is null);
  get diagnostics v_count = row_count;
  return v_count;
end
$$;
comment on function budget.redrive_alert(bigint, text) is
  'Deliver an alert again that is dead or waits (null: to all its destinations); returns to how many. LB101 unknown alert or '
  'destination.';
revoke all on function budget.redrive_alert(bigint, text) from public;
grant execute on function budget.redrive_alert(bigint, text) to budget_reconciler, budget_admin;
