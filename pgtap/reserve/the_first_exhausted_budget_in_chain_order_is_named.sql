begin;
select plan(4);
select budget_test.any_allocation();
select budget_test.key(0.001) as k \gset
select budget.set_budget('o', 'project', 'p', 0.0005, 'month'), budget.set_budget('o', 'org', 'o', 0.0004, 'total');
select is((select scope_kind from budget.reserve(:'k', 't-mini', 450, 0)), 'org', 'only the org is too small');
select is((select scope_kind from budget.reserve(:'k', 't-mini', 600, 0)), 'project', 'project before org');
select is((select scope_kind from budget.reserve(:'k', 't-mini', 1100, 0)), 'key', 'key before both');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
