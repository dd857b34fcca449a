begin;
select plan(17);
select budget_test.at('2027-01-15T12:00:00Z'), budget_test.key(0.001) as k \gset
select budget.set_alert_destinations('{slack,smtp}');
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as r \gset
select is((select held_nano_usd::bigint from budget_internal.periods), 900000::bigint, '900 of 1,000 are held');
select is((budget.check_alerts()).crossings, 0, 'which is nothing to tell');
select is_empty('select * from budget.crossing');
select (budget.release(:'r')).status;
select is_empty('select * from budget.crossing', 'nor is a release');

select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as r \gset
update budget_internal.reservations set stale_at = '2027-01-15T11:00:00Z';
select is((budget.reconcile()).charged, 1);
select results_eq(
  'select org, scope_kind::text, scope_name, budget_name, threshold_percent::int, arming, spent_usd, limit_usd from budget.crossing',
  $$values ('o', 'key', 'k', 'day', 80, 0, 0.0009, 0.001)$$, 'a hold that is charged is spent: 90 percent'
);
select (budget.settle(:'r', '{"input": 100, "output": 50}')).status as status \gset
select is(:'status'::text, 'trued_up', 'down to 300');
select is((budget.check_alerts()).crossings, 0);
select (budget.reserve(:'k', 't-mini', 100, 125)).reservation_id as r \gset
select (budget.settle(:'r', '{"input": 100, "output": 125}')).charged_nano_usd as c \gset
select is((select count(*) from budget.crossing), 1::bigint, 'up again past 80 percent: the limit was never raised');

select budget.set_budget('o', 'key', 'k', 0.003, 'day');
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as r \gset
update budget_internal.reservations set stale_at = '2027-01-15T11:00:00Z';
select is((budget.reconcile()).charged, 1, '1,800 of 3,000');
select is((select count(*) from budget.crossing), 1::bigint);
select (budget.settle(:'r', '{"input": 100, "output": 400}')).status as status \gset
select is(:'status'::text, 'trued_up', 'the late report says 1,700: 2,600 of 3,000');
select results_eq(
  'select threshold_percent::int, arming, spent_usd, rearmed_at is null from budget.crossing order by crossed_at, arming',
  $$values (80, 0, 0.0009, false), (80, 1, 0.0026, true)$$, 'a true-up crosses too'
);
select results_eq(
  'select destination, state, payload ->> ''threshold_percent'', payload ->> ''scope'' from budget.alert_outbox order by alert_id',
  $$values ('slack', 'pending', '80', 'k'), ('slack', 'pending', '80', 'k')$$, 'a strict budget says nothing by e-mail'
);
select is(
  (select payload from budget.alert_outbox order by alert_id limit 1),
  '{"org": "o", "scope_kind": "key", "scope": "k", "budget": "day", "period": "day", "enforcement": "strict",
    "threshold_percent": 80, "spent_usd": 0.0009, "limit_usd": 0.001, "percent": 90.0,
    "starts_at": "2027-01-15T00:00:00Z", "ends_at": "2027-01-16T00:00:00Z"}'
);
select is((select count(*) from budget_internal.alerts), 2::bigint);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
