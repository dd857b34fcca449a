-- budget_internal.set_runner: who runs the schedule from now on. Waits for a step of the proxies that is under way.
create or replace function budget_internal.set_runner(p_runner text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_before text;
begin
  select s.runner into v_before from budget_internal.schedule s for update;
  if v_before <> p_runner then
    update budget_internal.schedule set runner = p_runner, changed_at = budget_internal.clock();
    perform budget_internal.audit_event(0, 'schedule', jsonb_build_object('runner', v_before), jsonb_build_object('runner', p_runner));
  end if;
end
$$;
revoke all on function budget_internal.set_runner(text) from public;
comment on function budget_internal.set_runner(text) is 'Say who runs the schedule: proxy or cron.';
