-- budget.reservation_status: every reservation with its one state: open, or how it ended.
create or replace view budget.reservation_status as
select
  r.org_id,
  r.reservation_id,
  case when r.reconciliation_quarantined_at is not null then 'quarantined' else 'open' end as state,
  k.name as key_name,
  r.model,
  budget.usd(r.reserved_nano_usd) as reserved_usd,
  null::numeric as charged_usd,
  r.reserved_at,
  r.stale_at,
  null::timestamptz as ended_at,
  r.reconciliation_attempts,
  r.reconciliation_error_type,
  r.reconcile_after,
  r.reconciliation_quarantined_at is not null as quarantined,
  r.reconciliation_quarantined_at
from budget_internal.reservations r
left join budget_internal.scopes k on k.scope_id = r.key_id
union all
select
  l.org_id,
  l.reservation_id,
  coalesce(c.kind, l.kind)::text,
  k.name,
  l.model,
  budget.usd(l.reserved_nano_usd),
  budget.usd(l.amount_nano_usd::numeric + coalesce(c.amount_nano_usd, 0) + (
    select coalesce(sum(g.amount_nano_usd), 0)
    from budget_internal.ledger_entries g
    where g.reservation_id = l.reservation_id and g.kind::text = 'leg'
  )),
  l.reserved_at,
  null,
  coalesce(c.booked_at, l.booked_at),
  0,
  null,
  null,
  false,
  null
from budget_internal.ledger_entries l
left join budget_internal.ledger_entries c on c.reservation_id = l.reservation_id and c.kind = 'trued_up'
left join budget_internal.scopes k on k.scope_id = l.key_id
-- As text: a script that adds a kind in the same transaction cannot name it yet.
where l.kind::text not in ('leg', 'trued_up');
comment on view budget.reservation_status is
  'Reservations, open and ended, in USD, with the state of their reconciliation.';
grant select on budget.reservation_status to budget_reader, budget_admin;
