-- budget.find_answer: where an answer of a key is made, and whether its cost is still not known; no row for an id that is not the
-- key's own.
-- errors: LB102 unknown, disabled or expired key.
create or replace function budget.find_answer(p_key text, p_answer_id text)
returns table (reservation_id uuid, provider text, account text, model text, owed boolean)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
  select
    a.reservation_id, a.provider, a.account, a.model,
    -- Open, or charged in full because nobody knew.
    not exists (
      select 1 from budget_internal.ledger_entries l
      where l.reservation_id = a.reservation_id and l.kind in ('settled', 'released', 'trued_up')
    )
  from budget_internal.keys k
  join budget_internal.background_answers a
    on a.org_id = k.org_id and a.key_id = k.key_id and a.answer_id = p_answer_id
  where k.key_id = budget_internal.usable_key(p_key);
end
$$;
comment on function budget.find_answer(text, text) is
  'An answer that a key had made in the background; owed: its reservation is open, or charged in full for want of knowledge.';
revoke all on function budget.find_answer(text, text) from public;
grant execute on function budget.find_answer(text, text) to budget_gateway, budget_admin;
