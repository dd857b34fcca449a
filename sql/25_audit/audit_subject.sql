-- budget_internal.audit_subject: what a changed row is called in the audit log: "project web", "key ci", "budget day of key ci".
create or replace function budget_internal.audit_subject(p_table text, p_row jsonb) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select case p_table
    when 'scopes' then format('%s %s', p_row ->> 'kind', p_row ->> 'name')
    when 'keys' then format('key %s', s.name)
    when 'key_secrets' then format('secret of key %s', s.name)
    when 'key_tags' then format('tag %s of key %s', (
      select t.name from budget_internal.scopes t where t.scope_id = (p_row ->> 'tag_id')::bigint
    ), s.name)
    when 'policies' then format('policy of %s %s', s.kind, s.name)
    when 'budgets' then format('budget %s of %s %s', p_row ->> 'name', s.kind, s.name)
    when 'rate_limits' then format('rate limit of %s %s', s.kind, s.name)
    when 'rungs' then format('rung %s of %s %s', p_row ->> 'name', s.kind, s.name)
    when 'routes' then format('route %s', p_row ->> 'model')
    when 'models' then format('model %s/%s', p_row ->> 'provider', p_row ->> 'model')
    when 'model_aliases' then format('alias %s/%s', p_row ->> 'provider', p_row ->> 'alias')
    when 'prices' then format('price %s/%s', p_row ->> 'provider', p_row ->> 'model')
    when 'provider_costs' then format('provider cost of account %s on %s', (
      select a.name from budget_internal.scopes a where a.scope_id = (p_row ->> 'account_id')::bigint
    ), p_row ->> 'day_on')
    else p_table
  end
  from (values (1)) one (n)
  left join budget_internal.scopes s on s.scope_id = coalesce(p_row ->> 'scope_id', p_row ->> 'key_id')::bigint
$$;
revoke all on function budget_internal.audit_subject(text, jsonb) from public;
comment on function budget_internal.audit_subject(text, jsonb) is 'Name of a changed row for the audit log.';
