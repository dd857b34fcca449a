begin;
set transaction isolation level repeatable read;
select plan(2);
select throws_ok($$select budget.create_scope('o', 'project', 'p')$$, 'LB101', null, 'no such org');
select throws_ok($$select budget.create_scope(null, 'account', 'x')$$, 'LB105');
select * from finish();
rollback;
