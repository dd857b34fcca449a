-- budget_internal.policy: the settings in force for an org, its own before the installation's.
create or replace function budget_internal.policy(p_org_id bigint) returns budget_internal.policies
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select row(
    p_org_id, p_org_id,
    coalesce(o.default_max_output_tokens, i.default_max_output_tokens),
    coalesce(o.require_output_limit, i.require_output_limit),
    coalesce(o.stale_seconds, i.stale_seconds),
    coalesce(o.heartbeat_seconds, i.heartbeat_seconds),
    coalesce(o.reconcile_max_attempts, i.reconcile_max_attempts),
    coalesce(o.reconcile_base_seconds, i.reconcile_base_seconds),
    coalesce(o.reconcile_cap_seconds, i.reconcile_cap_seconds),
    coalesce(o.idempotency_days, i.idempotency_days)
  )::budget_internal.policies
  from budget_internal.policies i
  left join budget_internal.policies o on o.scope_id = p_org_id
  where i.scope_id = 0
$$;
revoke all on function budget_internal.policy(bigint) from public;
comment on function budget_internal.policy(bigint) is 'Settings in force for an org.';
