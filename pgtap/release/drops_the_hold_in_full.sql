begin;
select plan(5);
select budget_test.key(1) as k \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as r \gset
select is((select status || charged_nano_usd from budget.release(:'r', 'not sent')), 'released0');
select is((select status from budget.release(:'r')), 'repeated');
select throws_ok(format('select budget.settle(%L, ''{"input": 1}'')', :'r'), 'LB302');
select results_eq('select * from budget_test.counters()', 'values (0::bigint, 0::bigint)');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
