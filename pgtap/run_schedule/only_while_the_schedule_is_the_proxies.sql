begin;
select plan(7);
select budget_test.at('2031-01-15 12:00:00+00');
select budget_test.key(1) as k \gset
select budget.reserve(:'k', 't-mini', 100, 200);
select budget_test.at('2031-01-15 12:10:00+00');
update budget_internal.schedule set runner = 'cron';
select is((select r from budget.run_schedule() r)::text, '(f,cron,,,,f)', 'pg_cron has it');
select results_eq('select * from budget_test.counters()', 'values (0::bigint, 900::bigint)', 'nothing is done');
select is((select last_run_at from budget_internal.schedule), null);
select budget.disable_cron();
select is((select runner from budget_internal.schedule), 'proxy', 'given back, where there never was a pg_cron');
select is((select r from budget.run_schedule() r)::text, '(t,proxy,1,0,0,f)');
select is((select last_run_at from budget_internal.schedule), '2031-01-15 12:10:00+00'::timestamptz, 'the daily upkeep too');
select throws_ok('select budget.enable_cron()', 'LB101', 'this database has no pg_cron');
select * from finish();
rollback;
