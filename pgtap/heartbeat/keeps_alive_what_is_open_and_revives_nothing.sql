begin;
select plan(5);
select budget_test.at('2026-11-30 12:00:00+00');
select budget_test.key(1) as k \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as r \gset
select budget_test.at('2026-11-30 12:01:00+00');
select is((select alive from budget.heartbeat(array[:'r'::uuid])), true);
select budget_test.at('2026-11-30 12:02:25+00');
select is((select charged from budget.reconcile()), 0, 'alive for 90 seconds from the beat');
select budget_test.at('2026-11-30 12:02:31+00');
select is((select alive from budget.heartbeat(array[:'r'::uuid])), false, 'stale, though nobody has swept yet');
select results_eq(
  format('select alive from budget.heartbeat(array[%L, null, gen_random_uuid()]::uuid[])', :'r'), 'values (false), (false)'
);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
