begin;
select plan(13);
select budget_test.key(0.0009, '{"allow_unpriced": true}') as k \gset
select secret as l from budget.create_key('o', 'p', 'l') \gset
select budget.set_budget('o', 'key', 'l', 0.0009, 'day');
select budget.set_model('simulator', 'unpriced', 1000, 10), budget.set_route(null, 'unpriced', 'simulator', 'simulator');
select is((select code from budget.reserve(:'l', 'unpriced', 1, 1)), 'model_unpriced', 'not without the setting');
select is((select status || ' ' || reserved_nano_usd from budget.reserve(:'k', 'unpriced', 1, 1, 'u')), 'granted 0', 'nothing held');
select is((select worst_case_nano_usd from budget.reserve(:'k', 'unpriced', 1, 1)), null);
select is((select status from budget.reserve(:'k', 't-mini', 99, 200)), 'granted', 'it is in nobody''s way');
select is((select status from budget.reserve(:'k', 'unpriced', 1, 1)), 'granted', '1 of 900 is left');
select is((select status from budget.reserve(:'k', 't-mini', 1, 0, 'last')), 'granted');
select is((select code from budget.reserve(:'k', 'unpriced', 1, 1)), 'budget_busy', 'nothing is left beside the holds');
select budget.settle((select reservation_id from budget_internal.reservations where request_id = 'last'), '{"input": 1}');
select budget.settle((select reservation_id from budget_internal.reservations where cardinality(held_period_ids) > 0), '{"output": 225}');
select is((select code from budget.reserve(:'k', 'unpriced', 1, 1)), 'budget_exceeded', 'all is spent');
-- A feature without a price makes the model unpriced for that request.
select budget.set_budget('o', 'key', 'k', 0.002, 'day');
select is((select status || ' ' || reserved_nano_usd from budget.reserve(:'k', 't-mini', 100, 200, 's', '{"features": ["web_search"]}')), 'granted 0');
select is((select code from budget.reserve(:'l', 't-mini', 100, 200, null, '{"features": ["web_search"]}')), 'model_unpriced');
-- What it used is charged as far as it has a price.
select is((select status || ' ' || charged_nano_usd / 1000 from budget.settle((select reservation_id from budget_internal.reservations where request_id = 's'), '{"input": 100}')),
  'settled 100');
select is((select status || ' ' || charged_nano_usd || ' ' || flags::text from budget.settle((select reservation_id from budget_internal.reservations where request_id = 'u'), '{"input": 1}')),
  'charged 0 {provisional,usage_unpriced,unheld}', 'a call that has no price at all ends, flagged');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
