-- budget_internal.carried_now: the room that a period which no request has opened yet would take over, for views.
create or replace function budget_internal.carried_now(p_budget_id bigint, p_starts_at timestamptz) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return budget_internal.carried_room(p_budget_id, p_starts_at);
end
$$;
revoke all on function budget_internal.carried_now(bigint, timestamptz) from public;
comment on function budget_internal.carried_now(bigint, timestamptz) is 'Room that a period would take over, in nano-USD.';
grant execute on function budget_internal.carried_now(bigint, timestamptz) to budget_reader, budget_admin;
