begin;
select plan(9);
select budget_test.key(1) as k \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as r \gset
select budget_test.refused('select budget.resolve(null, ''charge'')', 'reservation_id');
select budget_test.refused(format('select budget.resolve(%L, null)', :'r'), 'action');
select budget_test.refused(format('select budget.resolve(%L, ''free'')', :'r'), 'action');
select budget_test.refused(format('select budget.resolve(%L, ''release'', ''{"output": 1}'')', :'r'), 'usage');
select budget_test.refused(format('select budget.resolve(%L, ''charge'', ''{}'')', :'r'), 'usage');
select budget_test.refused(format('select budget.resolve(%L, ''charge'', ''{"output": -1}'')', :'r'), 'usage');
select budget_test.refused(format('select budget.resolve(%L, ''charge'', ''{"nothing": 1}'')', :'r'), 'nothing');
select budget_test.refused(format('select budget.resolve(%L, ''charge'', null, repeat(''x'', 201))', :'r'), 'note');
select results_eq('select * from budget_test.counters()', 'values (0::bigint, 900::bigint)');
select * from finish();
rollback;
