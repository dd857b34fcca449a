-- budget.extend: let the hold of one growing call grow; a batch of one.
create or replace function budget.extend(p_reservation_id uuid, p_output_tokens bigint) returns budget.reserve_result
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
  select r from budget.extend_batch(jsonb_build_array(jsonb_build_object(
    'reservation_id', p_reservation_id, 'output_tokens', p_output_tokens
  ))) r
$$;
comment on function budget.extend(uuid, bigint) is
  'Grow a hold to so many output tokens for each choice, counted from the start. Returns granted with the tokens held now, or denied.';
revoke all on function budget.extend(uuid, bigint) from public;
grant execute on function budget.extend(uuid, bigint) to budget_gateway, budget_admin;
