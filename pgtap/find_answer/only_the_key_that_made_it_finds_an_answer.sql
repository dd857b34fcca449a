begin;
select plan(9);
select budget_test.at('2026-11-30 12:00:00+00');
select budget_test.key(1) as k \gset
select c.secret as other from budget.create_key('o', 'p', 'other', '{}') c \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as r \gset
select lives_ok(format('select budget.keep_answer(%L, %L, %L, %L)', :'r', 'resp_1', 'simulator', 'simulator'));
select lives_ok(format('select budget.keep_answer(%L, %L, %L, %L)', :'r', 'resp_1', 'simulator', 'simulator'), 'again');
select results_eq(
  format('select reservation_id, provider, account, model, owed from budget.find_answer(%L, %L)', :'k', 'resp_1'),
  format('values (%L::uuid, %L, %L, %L, true)', :'r', 'simulator', 'simulator', 't-mini')
);
select is_empty(format('select * from budget.find_answer(%L, %L)', :'other', 'resp_1'), 'another key''s');
select is_empty(format('select * from budget.find_answer(%L, %L)', :'k', 'resp_2'), 'an id that nobody made');
select throws_ok('select * from budget.find_answer(''nobody'', ''resp_1'')', 'LB102');

-- Charged in full, since nobody knew: still owed. Then somebody does.
select budget_test.at('2026-11-30 12:02:00+00');
select budget.reconcile();
select is((select owed from budget.find_answer(:'k', 'resp_1')), true, 'charged provisionally');
select budget.settle(:'r', '{"input": 100, "output": 10}', 'finished');
select is((select owed from budget.find_answer(:'k', 'resp_1')), false, 'trued up');
select budget_test.at('2026-12-31 12:00:00+00');
select budget_internal.purge_windows(100);
select is_empty(format('select * from budget.find_answer(%L, %L)', :'k', 'resp_1'), 'forgotten after 30 days');
select * from finish();
rollback;
