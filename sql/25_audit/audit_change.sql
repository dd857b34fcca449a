-- budget_internal.audit_change: every change of configuration as a row of the audit log. An update shows what differs and what
-- tells the row; one that changes nothing but what is derived (a key's chain) is no change. Never a secret, nor its hash.
-- Runs and their budgets are made by requests, and are no configuration.
create or replace function budget_internal.audit_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_hidden constant text[] := array['secret_hash', 'chain', 'created_at', 'org_id'];
  v_telling constant text[] := array[
    'scope_id', 'kind', 'name', 'key_id', 'tag_id', 'last_four', 'budget_id', 'place', 'route_id', 'price_id', 'provider', 'model', 'alias'
  ];
  v_before jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
  v_after jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
  v_row jsonb := coalesce(v_after, v_before);
  v_changed text[];
begin
  if tg_table_name = 'scopes' and v_row ->> 'kind' = 'run' or tg_table_name = 'budgets' and exists (
    select 1 from budget_internal.scopes s where s.scope_id = (v_row ->> 'scope_id')::bigint and s.kind = 'run'
  ) then
    return null;
  end if;
  if tg_op = 'UPDATE' then
    v_changed := array(
      select n.key from jsonb_each(v_after) n where n.value is distinct from v_before -> n.key and n.key <> all (v_hidden)
    );
    if cardinality(v_changed) = 0 then
      return null;
    end if;
    select jsonb_object_agg(m.key, m.value) into v_before from jsonb_each(v_before) m where m.key = any (v_changed || v_telling);
    select jsonb_object_agg(m.key, m.value) into v_after from jsonb_each(v_after) m where m.key = any (v_changed || v_telling);
  else
    v_before := jsonb_strip_nulls(v_before - v_hidden);
    v_after := jsonb_strip_nulls(v_after - v_hidden);
  end if;
  insert into budget_internal.audit_entries (org_id, changed_at, actor, client, subject, action, before, after)
  values (
    coalesce((v_row ->> 'org_id')::bigint, 0), budget_internal.clock(), session_user,
    nullif(current_setting('application_name'), ''), budget_internal.audit_subject(tg_table_name, v_row), lower(tg_op),
    v_before, v_after
  );
  return null;
end
$$;
revoke all on function budget_internal.audit_change() from public;
comment on function budget_internal.audit_change() is 'Trigger: write a change of configuration to the audit log.';

create or replace trigger scopes_are_audited after insert or update or delete on budget_internal.scopes
for each row execute function budget_internal.audit_change();
create or replace trigger keys_are_audited after insert or update or delete on budget_internal.keys
for each row execute function budget_internal.audit_change();
create or replace trigger key_secrets_are_audited after insert or update or delete on budget_internal.key_secrets
for each row execute function budget_internal.audit_change();
create or replace trigger key_tags_are_audited after insert or update or delete on budget_internal.key_tags
for each row execute function budget_internal.audit_change();
create or replace trigger policies_are_audited after insert or update or delete on budget_internal.policies
for each row execute function budget_internal.audit_change();
create or replace trigger budgets_are_audited after insert or update or delete on budget_internal.budgets
for each row execute function budget_internal.audit_change();
create or replace trigger rate_limits_are_audited after insert or update or delete on budget_internal.rate_limits
for each row execute function budget_internal.audit_change();
create or replace trigger rungs_are_audited after insert or update or delete on budget_internal.rungs
for each row execute function budget_internal.audit_change();
create or replace trigger routes_are_audited after insert or update or delete on budget_internal.routes
for each row execute function budget_internal.audit_change();
create or replace trigger models_are_audited after insert or update or delete on budget_internal.models
for each row execute function budget_internal.audit_change();
create or replace trigger model_aliases_are_audited after insert or update or delete on budget_internal.model_aliases
for each row execute function budget_internal.audit_change();
create or replace trigger prices_are_audited after insert or update or delete on budget_internal.prices
for each row execute function budget_internal.audit_change();
create or replace trigger provider_costs_are_audited after update or delete on budget_internal.provider_costs
for each row execute function budget_internal.audit_change();
