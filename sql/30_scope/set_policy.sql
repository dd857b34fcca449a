-- budget.set_policy: settings of an org, of one of its projects (p_project), or of the installation when p_org is null. Only
-- the members that are there change; null gives a setting back to what is above: project, org, installation.
-- locks:  the org.
-- Retention is of the installation only, and never shorter than an answer is kept for its request id.
-- errors: LB101 unknown org, project or setting, or a value out of its range.
create or replace function budget.set_policy(p_org text, p_settings jsonb, p_project text default null) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_org_id bigint := budget_internal.find_org(p_org);
  v_scope_id bigint;
  v_policy budget_internal.policies;
begin
  perform budget_internal.lock_org(v_org_id);
  if p_project is not null and v_org_id = 0 then
    perform budget_internal.fail('LB101', 'project must be null for the installation: a project is of an org', '');
  end if;
  v_scope_id := case when p_project is null then v_org_id else budget_internal.find_scope(v_org_id, 'project', p_project) end;
  perform budget_internal.check_options('settings', p_settings, array[
    'default_max_output_tokens', 'require_output_limit', 'stale_seconds', 'heartbeat_seconds', 'reconcile_max_attempts',
    'reconcile_base_seconds', 'reconcile_cap_seconds', 'idempotency_days', 'on_unknown_cost', 'alert_max_attempts',
    'burn_rate_percent', 'drift_tolerance_percent', 'ledger_retention_days', 'refusal_retention_days'
  ]);
  if v_org_id <> 0 and p_settings ?| array['ledger_retention_days', 'refusal_retention_days', 'drift_tolerance_percent'] then
    perform budget_internal.fail(
      'LB101', 'ledger_retention_days, refusal_retention_days and drift_tolerance_percent are settings of the installation only'
    );
  end if;
  if v_org_id = 0 and exists (
    select 1 from jsonb_each(p_settings) s
    where s.value = 'null' and s.key not in ('default_max_output_tokens', 'ledger_retention_days')
  ) then
    perform budget_internal.fail('LB101', 'a setting of the installation has no default to go back to; give it a value', '');
  end if;
  perform budget_internal.check_setting(s.key, s.value, r.most)
  from jsonb_each(p_settings) s
  join (values
    ('default_max_output_tokens', 9223372036854775807), ('stale_seconds', 86400), ('heartbeat_seconds', 86400),
    ('reconcile_max_attempts', 1000), ('reconcile_base_seconds', 86400), ('reconcile_cap_seconds', 604800), ('idempotency_days', 366),
    ('alert_max_attempts', 1000), ('burn_rate_percent', 10000), ('drift_tolerance_percent', 1000),
    ('ledger_retention_days', 36500), ('refusal_retention_days', 36500)
  ) r (name, most) on r.name = s.key
  where s.key <> 'drift_tolerance_percent' or s.value <> '0';
  perform budget_internal.option_boolean(p_settings, 'require_output_limit');
  perform budget_internal.option_word(p_settings, 'on_unknown_cost', array['refuse', 'check']);

  select p.* into v_policy from budget_internal.policies p where p.scope_id = v_scope_id and p.org_id = v_org_id;
  v_policy.org_id := v_org_id;
  v_policy.scope_id := v_scope_id;
  v_policy := jsonb_populate_record(v_policy, p_settings);
  perform budget_internal.check_retention(v_policy);
  insert into budget_internal.policies
  select v_policy.*
  on conflict (scope_id, org_id) do update
  set default_max_output_tokens = excluded.default_max_output_tokens,
    require_output_limit = excluded.require_output_limit,
    stale_seconds = excluded.stale_seconds,
    heartbeat_seconds = excluded.heartbeat_seconds,
    reconcile_max_attempts = excluded.reconcile_max_attempts,
    reconcile_base_seconds = excluded.reconcile_base_seconds,
    reconcile_cap_seconds = excluded.reconcile_cap_seconds,
    idempotency_days = excluded.idempotency_days,
    on_unknown_cost = excluded.on_unknown_cost,
    alert_max_attempts = excluded.alert_max_attempts,
    burn_rate_percent = excluded.burn_rate_percent,
    drift_tolerance_percent = excluded.drift_tolerance_percent,
    ledger_retention_days = excluded.ledger_retention_days,
    refusal_retention_days = excluded.refusal_retention_days;
end
$$;
comment on function budget.set_policy(text, jsonb, text) is
  'Change settings of an org, of one of its projects, or (p_org null) of the installation: default_max_output_tokens, '
  'require_output_limit, stale_seconds, heartbeat_seconds, reconcile_max_attempts, reconcile_base_seconds, '
  'reconcile_cap_seconds, idempotency_days, on_unknown_cost (refuse, check), alert_max_attempts, burn_rate_percent; of the '
  'installation only ledger_retention_days (null: kept for ever), refusal_retention_days, drift_tolerance_percent. LB101 on bad input.';
revoke all on function budget.set_policy(text, jsonb, text) from public;
grant execute on function budget.set_policy(text, jsonb, text) to budget_admin;
