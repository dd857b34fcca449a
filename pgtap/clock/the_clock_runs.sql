begin;
select plan(2);
select has_function('budget_internal', 'clock', array[]::name[], 'there is one clock');
select cmp_ok(budget_internal.clock(), '<=', clock_timestamp(), 'it is not ahead of the server');
select * from finish();
rollback;
