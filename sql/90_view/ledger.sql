-- budget.ledger: every way money moved, in the order it was booked.
create or replace view budget.ledger as
select
  l.org_id,
  l.entry_id,
  l.booked_at,
  l.kind,
  l.reservation_id,
  k.name as key_name,
  l.model,
  p.provider,
  p.model as upstream_model,
  budget.usd(l.amount_nano_usd) as amount_usd,
  budget.usd(l.reserved_nano_usd) as reserved_usd,
  l.source,
  l.outcome,
  l.usage,
  l.overrun,
  l.flags,
  l.request_id,
  l.reserved_at,
  l.note
from budget_internal.ledger_entries l
left join budget_internal.scopes k on k.scope_id = l.key_id
left join budget_internal.prices p on p.price_id = l.price_id;
comment on view budget.ledger is 'Ledger entries in USD: leg, settled, released, charged (provisional), trued_up. docs/sql.md explains their words.';
grant select on budget.ledger to budget_reader, budget_admin;
