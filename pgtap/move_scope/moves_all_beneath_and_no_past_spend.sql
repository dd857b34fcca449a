begin;
select plan(7);
call budget_test.tree();
select secret as k from budget.create_key('o', 'p', 'k', '{"unit": "c"}') \gset
select budget.create_key('o', 'p', 'gone', '{"unit": "b"}');
select budget.delete_scope('o', 'key', 'gone');
select budget.set_budget('o', 'unit', 'a', 1, 'day'), budget.set_budget('o', 'unit', 'z', 1, 'day');
select budget.settle((budget.reserve(:'k', 't-mini', 100, 200)).reservation_id, '{"input": 100, "output": 200}');
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as running \gset
select budget.move_scope('o', 'unit', 'b', 'unit', 'z');
select is(budget_test.chain('k'), 'key k, unit c, unit b, unit z, project p, org o');
select is(budget_test.chain('gone'), 'key gone, unit b, unit z, project p, org o', 'a deleted key keeps a true chain');
select budget.settle(:'running', '{"input": 100, "output": 200}');
select results_eq('select scope_name, spent_usd from budget.budget_status order by 1', $$values ('a', 0.0018), ('z', 0)$$,
  'what was admitted before the move is charged where it was held');
select budget.settle((budget.reserve(:'k', 't-mini', 100, 200)).reservation_id, '{"input": 100, "output": 200}');
select results_eq('select scope_name, spent_usd from budget.budget_status order by 1', $$values ('a', 0.0018), ('z', 0.0009)$$);
select lives_ok($$select budget.move_scope('o', 'unit', 'b', 'unit', 'z')$$, 'to where it is');
select budget.move_scope('o', 'unit', 'b', 'project', 'p');
select is(budget_test.chain('k'), 'key k, unit c, unit b, project p, org o', 'out to the top');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
