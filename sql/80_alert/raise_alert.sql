-- budget_internal.raise_alert: something that people are to be told, in the transaction of what caused it: the alert, and a
-- delivery for each destination there is now. Waits for nobody but another transaction that raises the same cause.
-- repeats: the same kind and cause again tells nothing new and returns null.
create or replace function budget_internal.raise_alert(
  p_org_id bigint, p_kind text, p_cause text, p_payload jsonb, p_now timestamptz
) returns bigint
language plpgsql volatile
as $$
declare
  v_alert_id bigint;
begin
  insert into budget_internal.alerts (org_id, kind, cause, payload, created_at)
  values (p_org_id, p_kind, p_cause, p_payload, p_now)
  on conflict (kind, cause) do nothing
  returning alert_id into v_alert_id;

  insert into budget_internal.deliveries (org_id, alert_id, destination, next_attempt_at)
  select p_org_id, v_alert_id, d.destination, p_now
  from budget_internal.alert_destinations d
  where v_alert_id is not null and (not d.soft_only or coalesce(p_payload ->> 'enforcement', 'soft') = 'soft');
  return v_alert_id;
end
$$;
revoke all on function budget_internal.raise_alert(bigint, text, text, jsonb, timestamptz) from public;
comment on function budget_internal.raise_alert(bigint, text, text, jsonb, timestamptz) is
  'Put an alert into the outbox, once a cause; returns its id, null for one that is known.';
