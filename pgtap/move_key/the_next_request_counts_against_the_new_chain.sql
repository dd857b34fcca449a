begin;
select plan(8);
call budget_test.tree();
select secret as k from budget.create_key('o', 'p', 'k', '{"unit": "c", "tags": ["t1"]}') \gset
select budget.set_budget('o', 'unit', 'a', 1, 'day'), budget.set_budget('o', 'project', 'q', 1, 'day'), budget.set_budget('o', 'member', 'm', 1, 'day');
select budget.settle((budget.reserve(:'k', 't-mini', 100, 200)).reservation_id, '{"input": 100, "output": 200}');
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as running \gset
select budget.move_key('o', 'k', '{"project": "q", "unit": null, "member": "m"}');
select is(budget_test.chain('k'), 'key k, tag t1, member m, project q, org o', 'what is not named stays');
select budget.settle(:'running', '{"input": 100, "output": 200}');
select budget.settle((budget.reserve(:'k', 't-mini', 100, 200)).reservation_id, '{"input": 100, "output": 200}');
select results_eq('select scope_name, spent_usd from budget.budget_status order by 1', $$values ('a', 0.0018), ('m', 0.0009), ('q', 0.0009)$$,
  'past spend stays');
select budget.move_key('o', 'k', '{"tags": ["t2", "t1"]}');
select is(budget_test.chain('k'), 'key k, tag t1, tag t2, member m, project q, org o');
select budget.move_key('o', 'k', '{"tags": ["t2"], "project": "p", "unit": "z"}');
select is(budget_test.chain('k'), 'key k, tag t2, member m, unit z, project p, org o');
select budget.move_key('o', 'k', '{"tags": null, "member": null, "unit": null}');
select is(budget_test.chain('k'), 'key k, project p, org o', 'null takes away');
select budget_test.refused($$select budget.delete_scope('o', 'project', 'p')$$, '1 key');
select lives_ok($$select budget.delete_scope('o', 'project', 'q')$$, 'the key is not beneath what it left');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
