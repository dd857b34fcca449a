-- budget_internal.ended_chains: periods, scopes and rate windows of reservations that have ended, by their ledger rows.
-- A function, so that who ends open ones does not open the ledger's partitions.
create or replace function budget_internal.ended_chains(p_reservation_ids uuid[])
returns table (period_ids bigint[], scope_ids bigint[], rate_scope_ids bigint[])
language plpgsql stable
as $$
begin
  if cardinality(p_reservation_ids) > 0 then
    return query
    select l.period_ids, l.scope_ids, l.rate_scope_ids
    from budget_internal.ledger_entries l
    where l.reservation_id = any (p_reservation_ids);
  end if;
end
$$;
revoke all on function budget_internal.ended_chains(uuid[]) from public;
comment on function budget_internal.ended_chains(uuid[]) is 'What the locks of ended reservations stand for.';
