-- budget.set_rate_limit: how many requests and how many tokens a key or a project may use a minute; acts on the next request.
-- Null is no limit; both null takes the limits away.
-- locks:  the org.
-- errors: LB101 unknown scope, a limit out of 1 to 10,000,000.
create or replace function budget.set_rate_limit(
  p_org text, p_kind text, p_name text, p_requests_per_minute bigint, p_tokens_per_minute bigint
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_scope record;
begin
  v_scope := budget_internal.lock_scope(p_org, p_kind, p_name, array['key', 'project']);
  perform budget_internal.check_setting('requests_per_minute', coalesce(to_jsonb(p_requests_per_minute), 'null'), 10000000);
  perform budget_internal.check_setting('tokens_per_minute', coalesce(to_jsonb(p_tokens_per_minute), 'null'), 10000000);
  if p_requests_per_minute is null and p_tokens_per_minute is null then
    delete from budget_internal.rate_limits l where l.scope_id = v_scope.scope_id;
    return;
  end if;
  insert into budget_internal.rate_limits (org_id, scope_id, requests_per_minute, tokens_per_minute)
  values (v_scope.org_id, v_scope.scope_id, p_requests_per_minute, p_tokens_per_minute)
  on conflict (scope_id, org_id) do update
  set requests_per_minute = excluded.requests_per_minute, tokens_per_minute = excluded.tokens_per_minute;
end
$$;
comment on function budget.set_rate_limit(text, text, text, bigint, bigint) is
  'Set the requests and tokens a minute of a key or project, 1 to 10,000,000; null = no limit. LB101 on bad input.';
revoke all on function budget.set_rate_limit(text, text, text, bigint, bigint) from public;
grant execute on function budget.set_rate_limit(text, text, text, bigint, bigint) to budget_admin;
