-- budget.exposure: what is in flight at this moment, for each org and (org null) in all.
create or replace view budget.exposure as
select
  o.name as org,
  count(r.reservation_id) as in_flight,
  count(r.reservation_id) filter (where r.reconciliation_quarantined_at is not null) as quarantined,
  budget.usd(coalesce(max(r.reserved_nano_usd), 0)) as worst_case_usd,
  budget.usd(coalesce(sum(r.reserved_nano_usd) filter (where r.held_period_ids <> '{}'), 0)) as held_usd
from budget_internal.scopes o
left join budget_internal.reservations r on r.org_id = o.scope_id
where o.kind = 'org' and o.scope_id <> 0 and o.deleted_at is null
group by grouping sets ((o.scope_id, o.name), ());
comment on view budget.exposure is
  'Calls in flight by org (null: all): how many, the largest hold of one, and what is held, in USD. A quarantined one still holds.';
grant select on budget.exposure to budget_reader, budget_admin;
