begin;
select plan(4);
call budget_test.tree();
select budget.create_key('o', 'p', 'k'), budget.create_key('o', 'p', 'l');
select budget.set_budget('o', 'project', 'p', 60, 'month', '{"name": "web"}');
prepare try(text, text, numeric, text, jsonb) as select budget.set_budget('o', $1, $2, $3, $4, $5);
select throws_ok(
  $$execute try('key', 'k', 2.5, 'day', '{}')$$, 'LB109',
  'budget "day" of key "k" (2.5 USD for day) is more than budget "web" of project "p" (60 USD for month, 2 USD a day), which stands over it'
);
select throws_ok(
  $$execute try('org', 'o', 10, 'week', '{}')$$, 'LB109',
  'budget "web" of project "p" (60 USD for month, 2 USD a day) is more than budget "week" of org "o" (10 USD for week, 1.428571429 USD a day), which stands over it'
);
select budget.set_budget('o', 'project', 'p', 60, 'month', '{"name": "web", "allocation": "sum_within"}'),
  budget.set_budget('o', 'key', 'k', 1.5, 'day');
select throws_ok(
  $$execute try('key', 'l', 1, 'day', '{}')$$, 'LB109',
  'the budgets of key "l" and 1 other come to 2.5 USD a day, more than budget "web" of project "p" (60 USD for month, 2 USD a day), which they must be within together'
);
select throws_ok(
  $$execute try('unit', 'a', 5, 'day', '{}')$$, 'LB109',
  'budget "day" of unit "a" (5 USD for day) is more than budget "web" of project "p" (60 USD for month, 2 USD a day), which stands over it'
);
select * from finish();
rollback;
