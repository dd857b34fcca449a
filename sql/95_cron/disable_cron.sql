-- budget.disable_cron: take the schedule back from pg_cron: the proxies run it again. For a superuser.
-- repeats: changes nothing. A job that runs at this moment ends its run; that harms nothing, rows are judged under their locks.
create or replace function budget.disable_cron() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  perform budget_internal.remove_cron_jobs();
  perform budget_internal.set_runner('proxy');
end
$$;
comment on function budget.disable_cron() is 'Let the proxies run the schedule again; for a superuser.';
revoke all on function budget.disable_cron() from public;
