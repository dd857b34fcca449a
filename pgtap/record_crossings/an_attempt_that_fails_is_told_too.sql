begin;
select plan(4);
-- c-son at 3 and 15 micro-dollars a token: 90 x 3 + 10 x 15 = 420 of 500, and the call goes on.
select budget_test.at('2027-01-15T12:00:00Z'), budget_test.key(0.01) as k \gset
select budget.set_budget('o', 'key', 'k', 0.0005, 'day', '{"name": "soft", "enforcement": "soft"}');
select budget.set_routes('o', 'm', '[{"provider": "simulator", "account": "simulator", "upstream_model": "c-son", "priority": 1},
  {"provider": "simulator", "account": "simulator", "upstream_model": "t-mini", "priority": 2}]');
select reservation_id as r from budget.reserve(:'k', 'm', 100, 200) \gset
select is((budget.next_attempt(:'r', '{"input": 90, "output": 10}', 2)).status, 'granted');
select results_eq(
  'select budget_name, threshold_percent::int, spent_usd from budget.crossing', $$values ('soft', 80, 0.00042)$$,
  'before the call has ended'
);
select (budget.settle(:'r', '{"input": 90, "output": 10}')).charged_nano_usd as charged \gset
select results_eq(
  'select budget_name, threshold_percent::int, spent_usd from budget.crossing order by 2',
  $$values ('soft', 80, 0.00042), ('soft', 100, 0.00055)$$, '130 more from t-mini'
);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
