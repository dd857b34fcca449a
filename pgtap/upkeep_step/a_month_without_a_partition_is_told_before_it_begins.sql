begin;
select plan(4);
select budget_test.at('2041-01-31 23:59:00+00');
select budget_internal.check_partitions();
select results_eq(
  $$select kind, cause, payload ->> 'message' from budget_internal.alerts$$,
  $$values ('upkeep'::text, 'partition/2041-02'::text, 'the ledger has no partition for 2041-02'::text)$$
);
select budget_internal.check_partitions();
select is((select count(*)::int from budget_internal.alerts), 1, 'once');
select budget.upkeep_step();
select budget_test.at('2041-11-30 23:59:00+00');
select budget_internal.check_partitions();
select is((select count(*)::int from budget_internal.alerts), 1, 'not of a month that has one');
select budget_test.at('2042-01-31 23:59:00+00');
select budget_internal.check_partitions();
select is((select count(*)::int from budget_internal.alerts), 2);
select * from finish();
rollback;
