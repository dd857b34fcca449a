-- budget.test_alert: an alert that says only that alerts arrive, to every destination. Returns its id, to look for in alert_outbox.
create or replace function budget.test_alert() returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return budget_internal.raise_alert(
    0, 'test', gen_random_uuid()::text, jsonb_build_object('asked_by', session_user), budget_internal.clock()
  );
end
$$;
comment on function budget.test_alert() is 'Send an alert that says only that alerts arrive; returns its id.';
revoke all on function budget.test_alert() from public;
grant execute on function budget.test_alert() to budget_admin;
