begin;
select plan(6);
select budget_test.key(0) as k \gset
select is((select code from budget.reserve(:'k', 't-mini', 1, 0)), 'request_over_limit');
select is(
  (select message from budget.reserve(:'k', 't-mini', 1, 0)),
  'this request could cost up to $0.000001, more than the whole limit of the day budget of key "k" ($0); '
  'it allows nothing that costs money: ask for a limit'
);
select is((select status from budget.reserve(:'k', 't-mini', 0, 0)), 'granted', 'what costs nothing always fits');
select budget.set_budget('o', 'key', 'k', null, 'day');
select is((select status from budget.reserve(:'k', 't-pro', 100000, 10000)), 'granted');
select is((select reserved_usd from budget.budget_status where scope_kind = 'key'), 0.8, 'and still counted');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
