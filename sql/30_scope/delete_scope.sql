-- budget.delete_scope: take a scope away that has nothing beneath it, with its budgets, limits, ladder and settings. Its name is
-- free again; what was spent stays in the ledger. A key may go while calls of it run: their charges still land; its runs go
-- with it.
-- locks:  the org.
-- errors: LB101 unknown scope, or something is beneath it (an account: a route uses it).
create or replace function budget.delete_scope(p_org text, p_kind text, p_name text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := budget_internal.clock();
  v_scope record;
  v_beneath text;
  v_scope_ids bigint[];
begin
  v_scope := budget_internal.lock_scope(
    p_org, p_kind, p_name, array['org', 'project', 'unit', 'member', 'tag', 'key', 'account']
  );
  v_beneath := budget_internal.scope_beneath(v_scope.org_id, p_kind, v_scope.scope_id);
  if v_beneath is not null then
    perform budget_internal.fail(
      'LB101', format('%s %s cannot be deleted: %s', p_kind, to_json(p_name), case p_kind
        when 'account' then format('%s lead to it', v_beneath)
        when 'tag' then format('%s carry it', v_beneath)
        else format('%s beneath it', v_beneath)
      end), 'Delete or move what is there first.'
    );
  end if;

  v_scope_ids := array(
    select v_scope.scope_id
    union all
    select s.scope_id
    from budget_internal.scopes s
    where p_kind = 'key' and s.parent_id = v_scope.scope_id and s.kind = 'run' and s.deleted_at is null
  );
  update budget_internal.scopes s set deleted_at = v_now where s.scope_id = any (v_scope_ids);
  -- In the order in which runs below runs are ended.
  perform 1
  from budget_internal.budgets b
  where b.scope_id = any (v_scope_ids) and b.deleted_at is null
  order by b.budget_id
  for no key update;
  update budget_internal.budgets b
  set deleted_at = v_now, changed_at = v_now
  where b.scope_id = any (v_scope_ids) and b.deleted_at is null;
  delete from budget_internal.rate_limits l where l.scope_id = v_scope.scope_id;
  delete from budget_internal.rungs r where r.scope_id = v_scope.scope_id;
  delete from budget_internal.policies p where p.scope_id = v_scope.scope_id;
  delete from budget_internal.routes r where p_kind = 'org' and r.org_id = v_scope.org_id;
end
$$;
comment on function budget.delete_scope(text, text, text) is
  'Delete an org, project, unit, member, tag, key or account that has nothing beneath it; past spend stays. LB101 when '
  'something is, naming what and how many.';
revoke all on function budget.delete_scope(text, text, text) from public;
grant execute on function budget.delete_scope(text, text, text) to budget_admin;
