begin;
select plan(4);
call budget_test.tree();
select budget.create_key('o', 'p', 'k'), budget.create_key('o', 'p', 'l');
select budget.set_budget('o', 'org', 'o', 10, 'day', '{"allocation": "sum_within"}'), budget.set_budget('o', 'project', 'p', 10, 'day'),
  budget.set_budget('o', 'key', 'k', 6, 'day'), budget.set_budget('o', 'key', 'l', 6, 'day');
-- The project may share its 10 out as it likes; without it the org's 10 are shared by 6 and 6.
select throws_ok($$select budget.delete_budget('o', 'project', 'p', 'day')$$, 'LB109');
select is((select count(*) from budget.budget_status), 4::bigint, 'it is still there');
select budget.set_budget('o', 'key', 'l', 4, 'day');
select lives_ok($$select budget.delete_budget('o', 'project', 'p', 'day')$$);
select is((select count(*) from budget.budget_status), 3::bigint);
select * from finish();
rollback;
