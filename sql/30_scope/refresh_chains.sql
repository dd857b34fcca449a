-- budget_internal.refresh_chains: write the chains of keys anew, as the tree is now. Call it with the org locked.
create or replace function budget_internal.refresh_chains(p_org_id bigint, p_key_ids bigint[]) returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  update budget_internal.keys k
  set chain = r.chain
  from (
    select i.key_id, budget_internal.resolve_chain(p_org_id, i.key_id) as chain from unnest(p_key_ids) i (key_id)
  ) r
  where k.key_id = r.key_id and k.org_id = p_org_id and k.chain is distinct from r.chain
$$;
revoke all on function budget_internal.refresh_chains(bigint, bigint[]) from public;
comment on function budget_internal.refresh_chains(bigint, bigint[]) is 'Make keys.chain what resolve_chain says.';
