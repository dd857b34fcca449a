begin;
select plan(11);
select budget_test.key() as k \gset
select budget.set_budget('o', 'key', 'k', 0.0065, 'day', '{"models": ["t-pro"]}');
select is((select status || ' ' || reserved_nano_usd from budget.reserve(:'k', 't-mini', 100, 200)), 'granted 0', 'not for this model: nothing held');
select is((select status from budget.reserve(:'k', 't-mini', 100000, 200)), 'granted', 'and no limit');
select is((select count(*) from budget_internal.periods), 0::bigint);
-- 100 x 5 + 200 x 30 = 6,500.
select is((select reserved_nano_usd from budget.reserve(:'k', 't-pro', 100, 200)), 6500000::bigint);
select is((select code from budget.reserve(:'k', 't-pro', 1, 0)), 'budget_busy');
select is((select code from budget.reserve(:'k', 't-pro', 101, 200)), 'request_over_limit');

-- The name that the client types is not the one that is priced.
select budget.set_route('o', 'fast', 'simulator', 'simulator', 't-pro'), budget.set_route('o', 't-pro', 'simulator', 'simulator', 't-mini');
select is((select code from budget.reserve(:'k', 'fast', 1, 0)), 'budget_busy', 'another name for t-pro');
select is((select status from budget.reserve(:'k', 't-pro', 1, 0)), 'granted', 't-mini under the name of t-pro');
-- A plan that may lead to the model is held for it, at its worst case: 10 x 5 + 0.
select budget.release(reservation_id) from budget_internal.reservations;
select budget.set_routes('o', 'either', '[{"provider": "simulator", "account": "simulator", "upstream_model": "t-mini", "priority": 1},
  {"provider": "simulator", "account": "simulator", "upstream_model": "t-pro", "priority": 2}]');
select is((select reserved_nano_usd from budget.reserve(:'k', 'either', 10, 0)), 50000::bigint);
select results_eq('select * from budget_test.counters()', 'values (0::bigint, 50::bigint)');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
