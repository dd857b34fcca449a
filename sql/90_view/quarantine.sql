-- budget.quarantine: rows that the reconciler gave up on. Their holds stay until someone repairs or resolves them.
create or replace view budget.quarantine as
select
  r.org_id,
  r.reservation_id,
  k.name as key_name,
  r.model,
  budget.usd(r.reserved_nano_usd) as reserved_usd,
  r.reserved_at,
  r.reconciliation_attempts,
  r.reconciliation_error_type,
  r.reconcile_after,
  true as quarantined,
  r.reconciliation_quarantined_at,
  r.reported
from budget_internal.reservations r
left join budget_internal.scopes k on k.scope_id = r.key_id
where r.reconciliation_quarantined_at is not null;
comment on view budget.quarantine is
  'Quarantined reservations. Repair the row and call budget.reconcile_one, which books the kept report or the whole hold; or decide '
  'with budget.resolve.';
grant select on budget.quarantine to budget_reader, budget_admin;
