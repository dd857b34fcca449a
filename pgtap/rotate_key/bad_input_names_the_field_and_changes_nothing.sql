begin;
select plan(7);
select budget_test.key(1) as k \gset
select budget_test.refused($$select budget.rotate_key('o', 'k', '-1 hour')$$, 'grace');
select budget_test.refused($$select budget.rotate_key('o', 'k', null)$$, 'grace');
select budget_test.refused($$select budget.rotate_key('o', 'k', '100000 years')$$, 'grace');
select budget_test.refused($$select budget.rotate_key('o', 'k', '367 days')$$, 'grace');
select budget_test.refused($$select budget.rotate_key('o', 'nobody')$$, 'nobody');
select is((select count(*) from budget_internal.key_secrets where expires_at is null), 1::bigint);
select is((select status from budget.reserve(:'k', 't-mini', 1, 1)), 'granted');
select * from finish();
rollback;
