-- budget_internal.allocation_state: the broken allocation rules on the lines of some scopes, to be given to check_allocation after
-- a change. Before a move it takes what is moved and where it goes.
create or replace function budget_internal.allocation_state(p_org_id bigint, variadic p_scope_ids bigint[]) returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(array_agg(distinct v.identity), '{}')
  from unnest(p_scope_ids) i (scope_id)
  cross join lateral budget_internal.allocation_violations(p_org_id, i.scope_id) v
$$;
revoke all on function budget_internal.allocation_state(bigint, bigint[]) from public;
comment on function budget_internal.allocation_state(bigint, bigint[]) is 'Broken allocation rules on the lines of scopes.';
