-- budget.run_status: every run with its ceiling and its steps. held: by its own calls, and for the runs carved from it.
create or replace view budget.run_status as
select
  o.name as org,
  k.name as key_name,
  s.name as run,
  u.name as parent_run,
  budget.usd(b.limit_nano_usd) as ceiling_usd,
  budget.usd(p.spent_nano_usd) as spent_usd,
  budget.usd(p.held_nano_usd) as held_usd,
  budget.usd(b.limit_nano_usd::numeric - p.spent_nano_usd - p.held_nano_usd) as available_usd,
  p.grants as steps,
  b.max_grants as max_steps,
  r.started_at,
  r.ended_at
from budget_internal.scopes o
join budget_internal.scopes k on k.org_id = o.org_id and k.kind = 'key'
join budget_internal.scopes s on s.parent_id = k.scope_id and s.kind = 'run' and s.deleted_at is null
join budget_internal.runs r on r.run_id = s.scope_id
join budget_internal.budgets b on b.budget_id = r.budget_id
join budget_internal.periods p on p.budget_id = r.budget_id
left join budget_internal.scopes u on u.scope_id = r.parent_run_id
where o.kind = 'org' and o.deleted_at is null;
comment on view budget.run_status is 'Runs of keys, in USD and steps; ceiling or max_steps null: none.';
grant select on budget.run_status to budget_reader, budget_admin;
