begin;
select plan(14);
call budget_test.tree();
select budget.create_key('o', 'p', 'k'), budget.create_key('o', 'p', 'l');
prepare try(text, text, numeric, jsonb) as select budget.set_budget('o', $1, $2, $3, 'day', $4);
select budget.set_budget('o', 'project', 'p', 10, 'day'), budget.set_budget('o', 'key', 'k', 8, 'day'), budget.set_budget('o', 'key', 'l', 7, 'day');
-- As it may be from before there were rules.
update budget_internal.budgets set limit_nano_usd = 5000000000 where name = 'day' and limit_nano_usd = 10000000000;
select lives_ok($$execute try('project', 'p', 6, '{}')$$, 'k and l are above it as they were');
select lives_ok($$execute try('key', 'k', 7, '{}')$$, 'a step in the right direction is taken');
select lives_ok($$execute try('key', 'k', 9, '{}')$$, 'nor is a step away a new violation');
select lives_ok($$execute try('unit', 'z', 6, '{}')$$);
select throws_ok($$execute try('unit', 'z', 6.5, '{}')$$, 'LB109', null, 'this one is new');
select lives_ok($$execute try('key', 'k', 5, '{}')$$);
select throws_ok($$execute try('key', 'k', 9, '{}')$$, 'LB109', null, 'once it is mended it is new again');
select throws_ok($$execute try('project', 'p', 6, '{"allocation": "sum_within"}')$$, 'LB109', null, '5 + 7 + 6 of 6');

update budget_internal.budgets set allocation = 'sum_within' where limit_nano_usd = 6000000000 and scope_id = (
  select scope_id from budget_internal.scopes where kind = 'project' and name = 'p'
);
select lives_ok($$execute try('unit', 'z', 5, '{}')$$, 'a sum that was broken may come down');
select throws_ok($$execute try('unit', 'a', 0.1, '{}')$$, 'LB109', null, 'and not be shared by one more');
select lives_ok($$select budget.delete_budget('o', 'key', 'l', 'day')$$);
select lives_ok($$select budget.delete_budget('o', 'unit', 'z', 'day')$$);
select throws_ok($$execute try('unit', 'a', 1.1, '{}')$$, 'LB109', null, '5 + 1.1 of 6');
select results_eq(
  $$select scope_name, limit_usd from budget.budget_status order by scope_name$$,
  $$values ('k', 5::numeric), ('p', 6)$$, 'what was refused is not there'
);
select * from finish();
rollback;
