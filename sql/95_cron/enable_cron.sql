-- budget.enable_cron: let pg_cron run the schedule in place of the proxies, as a login that is a member of budget_reconciler.
-- Runs with the rights of its caller, a superuser: only one may make jobs of another user.
-- Reconciles every minute, or every 15 seconds where pg_cron knows seconds (1.5); burn rates every minute; the upkeep once a day.
-- errors:  LB101 no pg_cron in this database, or a role that may not do it. repeats: replaces its own jobs.
create or replace function budget.enable_cron(p_role text default 'budget_reconciler') returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_version text := (select e.extversion from pg_extension e where e.extname = 'pg_cron');
  v_login boolean := (select r.rolcanlogin from pg_roles r where r.rolname = p_role);
  v_seconds boolean;
  v_schedule text := format('select %I.schedule_in_database($1, $2, $3, current_database(), $4)', 'cron');
begin
  if v_version is null then
    perform budget_internal.fail(
      'LB101', 'this database has no pg_cron', 'create extension pg_cron; the server needs it in shared_preload_libraries, and '
      'cron.database_name must be this database.'
    );
  elsif v_login is null then
    perform budget_internal.fail('LB101', format('role: there is no role %s', to_json(left(p_role, 60))));
  elsif not v_login then
    perform budget_internal.fail(
      'LB101', format('role: %I may not log in, and pg_cron runs jobs only as a role that may', p_role),
      format('alter role %I login; without a password nobody else gets in by it.', p_role)
    );
  elsif not pg_has_role(p_role, 'budget_reconciler', 'usage') then
    perform budget_internal.fail('LB101', format('role: %I is not a member of budget_reconciler', p_role));
  end if;
  v_seconds := regexp_match(v_version, '^(\d+)\.(\d+)')::integer[] >= array[1, 5];
  perform budget_internal.remove_cron_jobs();
  execute v_schedule using 'pgbudget reconcile', case when v_seconds then '15 seconds' else '* * * * *' end, 'call budget.run_reconciler()', p_role;
  execute v_schedule using 'pgbudget upkeep', '17 3 * * *', 'call budget.run_upkeep()', p_role;
  execute v_schedule using 'pgbudget alerts', '* * * * *', 'select budget.check_alerts()', p_role;
  perform budget_internal.set_runner('cron');
end
$$;
comment on function budget.enable_cron(text) is
  'Let pg_cron run the schedule as a role that may log in and is a member of budget_reconciler; for a superuser. LB101.';
revoke all on function budget.enable_cron(text) from public;
