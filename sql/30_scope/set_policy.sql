-- budget.set_policy: settings of an org, or of the installation when p_org is null. Null gives a setting back to the default.
-- errors: LB101 unknown setting, or a value out of its range.
create or replace function budget.set_policy(p_org text, p_settings jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_org_id bigint := budget_internal.find_org(p_org);
  v_constraint text;
begin
  perform budget_internal.check_options('settings', p_settings, array[
    'default_max_output_tokens', 'require_output_limit', 'stale_seconds', 'heartbeat_seconds', 'reconcile_max_attempts',
    'reconcile_base_seconds', 'reconcile_cap_seconds', 'idempotency_days'
  ]);
  if v_org_id = 0 and exists (
    select 1 from jsonb_each(p_settings) s where s.value = 'null' and s.key <> 'default_max_output_tokens'
  ) then
    perform budget_internal.fail('LB101', 'a setting of the installation has no default to go back to; give it a value', '');
  end if;
  insert into budget_internal.policies (org_id, scope_id) values (v_org_id, v_org_id) on conflict do nothing;
  begin
    update budget_internal.policies p
    set (
      default_max_output_tokens, require_output_limit, stale_seconds, heartbeat_seconds,
      reconcile_max_attempts, reconcile_base_seconds, reconcile_cap_seconds, idempotency_days
    ) = (
      select
        s.default_max_output_tokens, s.require_output_limit, s.stale_seconds, s.heartbeat_seconds,
        s.reconcile_max_attempts, s.reconcile_base_seconds, s.reconcile_cap_seconds, s.idempotency_days
      from jsonb_populate_record(p, p_settings) s
    )
    where p.scope_id = v_org_id;
  exception
    when check_violation then
      get stacked diagnostics v_constraint = constraint_name;
      perform budget_internal.fail('LB101', format('a setting is out of its range (%s)', v_constraint), '');
    when invalid_text_representation or numeric_value_out_of_range then
      perform budget_internal.fail('LB101', 'a setting has a value of the wrong type', 'Numbers are whole; require_output_limit is true or false.');
  end;
end
$$;
comment on function budget.set_policy(text, jsonb) is
  'Change settings of an org (null: of the installation): default_max_output_tokens, require_output_limit, stale_seconds, '
  'heartbeat_seconds, reconcile_max_attempts, reconcile_base_seconds, reconcile_cap_seconds, idempotency_days.';
revoke all on function budget.set_policy(text, jsonb) from public;
grant execute on function budget.set_policy(text, jsonb) to budget_admin;
