begin;
select plan(3);
select budget_test.key(100, '{"request_ceiling_usd": "0.0009"}') as k \gset
select is((select status from budget.reserve(:'k', 't-mini', 100, 200)), 'granted');
select is((select code from budget.reserve(:'k', 't-mini', 101, 200)), 'request_over_limit');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
