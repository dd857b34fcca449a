-- budget.alert_outbox: every alert with how it went to each destination. An alert of a time without destinations has one row.
create or replace view budget.alert_outbox as
select
  a.org_id,
  o.name as org,
  a.alert_id,
  a.kind,
  a.cause,
  a.payload,
  a.created_at,
  d.destination,
  d.state,
  d.attempts,
  case when d.state = 'pending' then d.next_attempt_at end as next_attempt_at,
  d.claimed_by,
  d.delivered_at,
  d.last_error
from budget_internal.alerts a
left join budget_internal.scopes o on o.scope_id = a.org_id and o.scope_id <> 0
left join budget_internal.deliveries d on d.alert_id = a.alert_id;
comment on view budget.alert_outbox is
  'Alerts and their deliveries. state: pending (due at next_attempt_at; with claimed_by a worker has it until then), delivered, '
  'dead (given up: budget.redrive_alert), null where nothing was configured to deliver it.';
grant select on budget.alert_outbox to budget_reader, budget_admin, budget_reconciler;
