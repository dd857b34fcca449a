begin isolation level repeatable read;
select plan(5);
select throws_ok($$select budget.reserve('x', 't-mini', 1, 1)$$, 'LB105');
select throws_ok($$select budget.settle(gen_random_uuid())$$, 'LB105');
select throws_ok($$select budget.reconcile()$$, 'LB105');
select throws_ok($$select budget.heartbeat('{}')$$, 'LB105');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
