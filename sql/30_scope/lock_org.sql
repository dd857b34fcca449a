-- budget_internal.lock_org: one admin at a time on the tree of an org. Everything that changes scopes, the place of keys,
-- routes or rungs takes this lock first and reads after it.
-- locks:  the org's scope row, FOR NO KEY UPDATE: admission and settlement do not wait for it.
-- errors: LB105 isolation level; LB101 the org was deleted meanwhile.
create or replace function budget_internal.lock_org(p_org_id bigint) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  perform budget_internal.require_read_committed();
  perform 1
  from budget_internal.scopes s
  where s.scope_id = p_org_id and s.org_id = p_org_id and s.deleted_at is null
  for no key update;
  if not found then
    perform budget_internal.fail('LB101', 'the org was deleted just now', '');
  end if;
end
$$;
revoke all on function budget_internal.lock_org(bigint) from public;
comment on function budget_internal.lock_org(bigint) is 'Take the lock on the tree of an org.';
