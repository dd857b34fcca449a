begin;
select plan(7);
select budget_test.at('2026-11-30 12:00:00+00');
select budget_test.key(1) as k \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as old \gset
select budget_test.at('2026-11-30 12:01:00+00');
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as young \gset
select throws_ok(format('select budget.reconcile_one(%L)', :'young'), 'LB304');
select budget_test.at('2026-11-30 12:01:31+00');
select is((select r from budget.reconcile(10) r), row(1, 0, 0, false)::budget.reconcile_result);
select results_eq('select * from budget_test.counters()', 'values (900::bigint, 900::bigint)');
select is((select kind || ' ' || outcome from budget.ledger), 'charged stale');
select is((select status from budget.reconcile_one(:'old')), 'repeated');
select throws_ok('select budget.reconcile(0)', 'LB101');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
