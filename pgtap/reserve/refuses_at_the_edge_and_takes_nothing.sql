begin;
select plan(8);
select budget_test.key(0.0009) as k \gset
select is((select code from budget.reserve(:'k', 't-mini', 101, 200)), 'request_over_limit', 'one token over the whole limit');
select is((select count(*)::int from budget_internal.reservations), 0);
select is((select status from budget.reserve(:'k', 't-mini', 100, 200)), 'granted', 'exactly the limit fits');
select is((select code from budget.reserve(:'k', 't-mini', 1, 0)), 'budget_busy', 'the hold of another is in the way');
select results_eq('select * from budget_test.counters()', 'values (0::bigint, 900::bigint)');
select is(
  (select s.status from budget_internal.reservations r, budget.settle(r.reservation_id, '{"input": 100, "output": 200}') s), 'settled'
);
select is((select code from budget.reserve(:'k', 't-mini', 1, 0)), 'budget_exceeded', 'spent alone leaves nothing');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
