-- budget_internal.run_result: a run as it stands.
create or replace function budget_internal.run_result(p_run_id bigint, p_status text, p_code text, p_message text)
returns budget.run_result
language sql stable
as $$
  select row(
    p_status, p_code, p_message, s.name, ps.name, b.limit_nano_usd, p.spent_nano_usd, p.held_nano_usd,
    b.limit_nano_usd - p.spent_nano_usd - p.held_nano_usd, p.grants, b.max_grants, r.started_at, r.ended_at
  )::budget.run_result
  from budget_internal.runs r
  join budget_internal.scopes s on s.scope_id = r.run_id
  left join budget_internal.scopes ps on ps.scope_id = r.parent_run_id
  join budget_internal.budgets b on b.budget_id = r.budget_id
  join budget_internal.periods p on p.budget_id = r.budget_id
  where r.run_id = p_run_id
$$;
revoke all on function budget_internal.run_result(bigint, text, text, text) from public;
comment on function budget_internal.run_result(bigint, text, text, text) is 'A run as it stands, with a status.';
