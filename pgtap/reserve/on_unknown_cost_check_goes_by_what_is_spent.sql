begin;
select plan(11);
select budget_test.key(0.0009) as k \gset
select budget.set_model('simulator', 'unpriced', 1000, 10), budget.set_route(null, 'unpriced', 'simulator', 'simulator');
select is((select code from budget.reserve(:'k', 'unpriced', 1, 1)), 'model_unpriced', 'the default is to refuse');
select budget.set_policy('o', '{"on_unknown_cost": "check", "require_output_limit": true}');
select is((select status || ' ' || reserved_nano_usd from budget.reserve(:'k', 'unpriced', 1, 1)), 'granted 0', 'decided on spent alone');
select is((select reserved_nano_usd from budget.reserve(:'k', 't-mini', 100, 200)), 900000::bigint, 'what is known is held as ever');
select is((select status || ' ' || reserved_nano_usd from budget.reserve(:'k', 'unpriced', 1, 1)), 'granted 0', 'holds are not looked at');
select is((select status || ' ' || reserved_nano_usd from budget.reserve(:'k', 't-mini', 100, null, 'uncapped')), 'granted 0', 'a cap that nobody set is no bound');
select results_eq('select * from budget_test.counters()', 'values (0::bigint, 900::bigint)');
select is((select code from budget.reserve(:'k', 't-mini', 100, 200)), 'budget_busy');
-- 100 x 1 + 8,192 x 4.
select is((select charged_nano_usd / 1000 from budget.settle((select reservation_id from budget_internal.reservations where request_id = 'uncapped'), null, 'unknown')), 32868::bigint,
  'never free: its worst case is charged when nothing is known');
select is((select code from budget.reserve(:'k', 'unpriced', 1, 1)), 'budget_exceeded');
select is((select code from budget.reserve(:'k', 't-mini', 100)), 'budget_exceeded');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
