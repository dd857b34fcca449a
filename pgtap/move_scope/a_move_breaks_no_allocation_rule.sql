begin;
select plan(8);
select budget.create_scope(null, 'org', 'o'), budget.create_scope('o', 'project', 'p');
select budget.create_scope('o', 'unit', 'small', 'project', 'p'), budget.create_scope('o', 'unit', 'full', 'project', 'p'),
  budget.create_scope('o', 'unit', 'u', 'project', 'p');
select budget.set_budget('o', 'unit', 'small', 1, 'day'), budget.set_budget('o', 'unit', 'full', 3, 'day', '{"allocation": "sum_within"}'),
  budget.set_budget('o', 'unit', 'u', 2, 'day');
select budget.create_key('o', 'p', 'in', '{"unit": "full"}'), budget.create_key('o', 'p', 'k');
select budget.set_budget('o', 'key', 'in', 2, 'day'), budget.set_budget('o', 'key', 'k', 2, 'day');

select throws_ok($$select budget.move_scope('o', 'unit', 'u', 'unit', 'small')$$, 'LB109', null, 'more than the unit it comes under');
select throws_ok($$select budget.move_scope('o', 'unit', 'u', 'unit', 'full')$$, 'LB109', null, 'more than is left beside the others');
select throws_ok($$select budget.move_key('o', 'k', '{"unit": "small"}')$$, 'LB109', null, 'a key too');
select throws_ok($$select budget.move_key('o', 'k', '{"unit": "full"}')$$, 'LB109', null, 'beside the others too');
select is(budget_test.chain('k'), 'key k, project p, org o', 'a refused move moves nothing');
select budget.set_budget('o', 'key', 'k', 1, 'day');
select lives_ok($$select budget.move_key('o', 'k', '{"unit": "full"}')$$, 'what fits moves');
select lives_ok($$select budget.move_key('o', 'k', '{"tags": []}')$$, 'what stays is not judged');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
