begin;
select plan(6);
select budget_test.key(1) as k \gset
select (budget.reserve(:'k', 't-mini', 1, 1)).reservation_id as running \gset
select budget.disable_key('o', 'k');
select disabled_at as first from budget_internal.keys \gset
select is((select code from budget.reserve(:'k', 't-mini', 1, 1)), 'key_disabled');
select is((select status from budget.settle(:'running', '{"input": 1, "output": 1}')), 'settled', 'what runs settles');
select budget.disable_key('o', 'k');
select is((select disabled_at from budget_internal.keys), (:'first')::timestamptz, 'the first time is kept');
select budget.enable_key('o', 'k'), budget.enable_key('o', 'k');
select is((select status from budget.reserve(:'k', 't-mini', 1, 1)), 'granted');
select budget_test.refused($$select budget.disable_key('o', 'nobody')$$, 'nobody');
select budget_test.refused($$select budget.enable_key('o', 'nobody')$$, 'nobody');
select * from finish();
rollback;
