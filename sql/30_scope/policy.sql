-- budget_internal.policy: the settings in force for a project, its own before its org's before the installation's.
-- A set of one row, so that it is planned with the query that asks.
create or replace function budget_internal.policy(p_org_id bigint, p_project_id bigint) returns setof budget_internal.policies
language sql stable
as $$
  select
    p_org_id, coalesce(p_project_id, p_org_id),
    coalesce(p.default_max_output_tokens, o.default_max_output_tokens, i.default_max_output_tokens),
    coalesce(p.require_output_limit, o.require_output_limit, i.require_output_limit),
    coalesce(p.stale_seconds, o.stale_seconds, i.stale_seconds),
    coalesce(p.heartbeat_seconds, o.heartbeat_seconds, i.heartbeat_seconds),
    coalesce(p.reconcile_max_attempts, o.reconcile_max_attempts, i.reconcile_max_attempts),
    coalesce(p.reconcile_base_seconds, o.reconcile_base_seconds, i.reconcile_base_seconds),
    coalesce(p.reconcile_cap_seconds, o.reconcile_cap_seconds, i.reconcile_cap_seconds),
    coalesce(p.idempotency_days, o.idempotency_days, i.idempotency_days),
    coalesce(p.on_unknown_cost, o.on_unknown_cost, i.on_unknown_cost),
    coalesce(p.ledger_retention_days, o.ledger_retention_days, i.ledger_retention_days),
    coalesce(p.refusal_retention_days, o.refusal_retention_days, i.refusal_retention_days),
    coalesce(p.alert_max_attempts, o.alert_max_attempts, i.alert_max_attempts),
    coalesce(p.drift_tolerance_percent, o.drift_tolerance_percent, i.drift_tolerance_percent),
    coalesce(p.burn_rate_percent, o.burn_rate_percent, i.burn_rate_percent)
  from budget_internal.policies i
  left join budget_internal.policies o on o.scope_id = p_org_id
  left join budget_internal.policies p on p.scope_id = p_project_id
  where i.scope_id = 0
$$;
revoke all on function budget_internal.policy(bigint, bigint) from public;
comment on function budget_internal.policy(bigint, bigint) is 'Settings in force for a project (null: for its org).';
