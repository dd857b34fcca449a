begin;
select plan(3);
call budget_test.tree();
select isnt(budget.create_scope('o', 'unit', 'd', 'unit', 'c'), null, 'the fourth');
select budget_test.refused($$select budget.create_scope('o', 'unit', 'e', 'unit', 'd')$$, 'parent_name "d" is four units deep');
select is((select count(*) from budget_internal.scopes where kind = 'unit'), 5::bigint);
select * from finish();
rollback;
