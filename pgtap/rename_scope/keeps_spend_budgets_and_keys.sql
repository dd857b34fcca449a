begin;
select plan(7);
call budget_test.tree();
select secret as k from budget.create_key('o', 'p', 'k', '{"unit": "c", "member": "m", "tags": ["t2", "t1"]}') \gset
select budget.set_budget('o', 'unit', 'a', 1, 'day');
select budget.settle((budget.reserve(:'k', 't-mini', 100, 200)).reservation_id, '{"input": 100, "output": 200}');
select budget.rename_scope('o', 'unit', 'a', 'alpha'), budget.rename_scope('o', 'project', 'p', 'pi'),
  budget.rename_scope('o', 'member', 'm', 'mu'), budget.rename_scope('o', 'key', 'k', 'kappa');
select is(budget_test.chain('kappa'), 'key kappa, tag t1, tag t2, member mu, unit c, unit b, unit alpha, project pi, org o');
-- Tags are in the chain by name.
select budget.rename_scope('o', 'tag', 't1', 't3');
select is(budget_test.chain('kappa'), 'key kappa, tag t2, tag t3, member mu, unit c, unit b, unit alpha, project pi, org o');
select budget.rename_scope(null, 'org', 'o', 'omega'), budget.rename_scope('omega', 'org', 'omega', 'o'),
  budget.rename_scope(null, 'org', 'o', 'omega');
select is((select scope_name || ' ' || spent_usd::text from budget.budget_status), 'alpha 0.0009');
select is((select status from budget.reserve(:'k', 't-mini', 100, 200)), 'granted', 'the key works');
select lives_ok($$select budget.rename_scope('omega', 'unit', 'alpha', 'alpha')$$, 'to the name it has');
select lives_ok($$select budget.create_scope('omega', 'unit', 'a', 'project', 'pi')$$, 'the old name is free');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
