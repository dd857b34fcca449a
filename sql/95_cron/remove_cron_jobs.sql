-- budget_internal.remove_cron_jobs: take the jobs of this database out of pg_cron, where there is one.
create or replace function budget_internal.remove_cron_jobs() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  if to_regclass('cron.job') is not null then
    execute format(
      'select %1$I.unschedule(j.jobid) from %1$I.job j where j.jobname like ''pgbudget %%'' and j.database = current_database()', 'cron'
    );
  end if;
end
$$;
revoke all on function budget_internal.remove_cron_jobs() from public;
comment on function budget_internal.remove_cron_jobs() is 'Take the jobs of pgbudget out of pg_cron.';
