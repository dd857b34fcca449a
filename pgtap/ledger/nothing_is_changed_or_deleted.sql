begin;
select plan(8);
select budget_test.key(1) as k \gset
select budget.release((budget.reserve(:'k', 't-mini', 1, 1)).reservation_id);
select budget.reserve(:'k', 't-mini', 1, 1);
select throws_ok('update budget_internal.ledger_entries set amount_nano_usd = 1', 'LB911');
select throws_ok('delete from budget_internal.ledger_entries', 'LB911');
select throws_ok('truncate budget_internal.ledger_entries', 'LB911');
select throws_ok('delete from budget_internal.reservations', 'LB903');
select throws_ok('delete from budget_internal.periods', 'LB912');
select throws_ok('update budget_internal.price_rates set amount_nano = 0', 'LB910');
select throws_ok('update budget_internal.prices set effective_from = now()', 'LB910');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
