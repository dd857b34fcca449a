-- budget.keep_answer: remember the id of an answer that is made in the background, while its reservation is open.
-- repeats: the same again changes nothing. Of a reservation that is not open nothing is kept.
create or replace function budget.keep_answer(p_reservation_id uuid, p_answer_id text, p_provider text, p_account text)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into budget_internal.background_answers (
    org_id, key_id, answer_id, reservation_id, provider, account, model, kept_at
  )
  select r.org_id, r.key_id, p_answer_id, r.reservation_id, p_provider, p_account, r.model, budget_internal.clock()
  from budget_internal.reservations r
  where r.reservation_id = p_reservation_id
  on conflict do nothing;
end
$$;
comment on function budget.keep_answer(uuid, text, text, text) is
  'Remember an answer that is made in the background: its id at the provider, and the account that it is made with.';
revoke all on function budget.keep_answer(uuid, text, text, text) from public;
grant execute on function budget.keep_answer(uuid, text, text, text) to budget_gateway;
