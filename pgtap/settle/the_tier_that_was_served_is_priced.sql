begin;
select plan(23);
select budget_test.key(1) as k \gset
select budget.set_model('simulator', 'tiered', 1000, 100);
select budget.review_price(budget.add_price('simulator', 'tiered', '[{"kind": "input", "usd": 1}, {"kind": "output", "usd": 4},
  {"kind": "input", "usd": 2, "variant": "priority"}, {"kind": "output", "usd": 8, "variant": "priority"},
  {"kind": "input", "usd": "0.5", "variant": "flex"}, {"kind": "output", "usd": 2, "variant": "flex"}]', '2020-01-01T00:00:00Z'), 'me');
select budget.set_route('o', 'tiered', 'simulator', 'simulator');
create function budget_test.ask(p_key text, p_options jsonb) returns text language sql as $$
  select concat_ws(' ', coalesce(code, status), reserved_nano_usd / 1000) from budget.reserve(p_key, 'tiered', 100, 50, null, p_options)
$$;
-- Half of what was held is used: 50 x 1 + 25 x 4 micro-dollars by the standard list.
create function budget_test.serve(p_key text, p_asked text, p_served jsonb, p_outcome text default 'finished') returns text language sql as $$
  select concat_ws(' ', s.status, s.source, s.charged_nano_usd / 1000, case when s.overrun then 'overrun' end, nullif(array_to_string(s.flags, ' '), ''))
  from budget.reserve(p_key, 'tiered', 100, 50, null, jsonb_strip_nulls(jsonb_build_object('service_tier', p_asked))) r
  cross join lateral budget.settle_batch(jsonb_build_array(jsonb_build_object(
    'reservation_id', r.reservation_id, 'outcome', p_outcome, 'usage', '{"input": 50, "output": 25}'::jsonb, 'service_tier', p_served))) s
$$;
select is(budget_test.ask(:'k', '{}'), 'granted 300', '100 + 200');
select is(budget_test.ask(:'k', '{"service_tier": "standard"}'), 'granted 300');
select is(budget_test.ask(:'k', '{"service_tier": "priority"}'), 'granted 600', 'the dearer');
select is(budget_test.ask(:'k', '{"service_tier": "flex"}'), 'granted 300', 'it may be served as standard');
select is(budget_test.ask(:'k', '{"service_tier": "batch"}'), 'model_unpriced', 'a tier without prices is not the standard one');
select is(budget_test.ask(:'k', '{"service_tier": "auto"}'), 'invalid_request');
select is(budget_test.ask(:'k', '{"service_tier": 1}'), 'invalid_request');
select budget.settle(reservation_id, null, 'unsent') from budget_internal.reservations;

select is(budget_test.serve(:'k', null, null), 'settled usage 150');
select is(budget_test.serve(:'k', 'priority', null), 'settled usage 300', 'not said: as it was asked for');
select is(budget_test.serve(:'k', 'flex', null), 'settled usage 75');
select is(budget_test.serve(:'k', 'priority', '"standard"'), 'settled usage 150', 'there was no room in it');
select is(budget_test.serve(:'k', 'flex', '"standard"'), 'settled usage 150');
select is(budget_test.serve(:'k', null, '"flex"'), 'settled usage 75', 'as the account is set');
select is(budget_test.serve(:'k', null, '"priority"'), 'settled usage 300', 'up to the hold');
select is((select string_agg(variant, ' ' order by entry_id) from budget_internal.ledger_entries where kind = 'settled'),
  'standard priority flex standard standard flex priority', 'the ledger says which');
select is(budget_test.serve(:'k', 'priority', '"flex"', 'estimated'), 'settled bound 75 estimated');
select is(budget_test.serve(:'k', 'flex', '"batch"'), 'charged hold 300 provisional usage_unpriced', 'served as what has no price');
select is(budget_test.serve(:'k', null, '"scale"'), 'charged hold 300 provisional usage_unpriced', 'or as what nobody knows');
select is(budget_test.serve(:'k', null, '{"odd": 1}'), 'charged hold 300 provisional usage_unpriced', 'or said in no word');

-- A report that comes late is priced by the tier that it names.
select reservation_id as r from budget.reserve(:'k', 'tiered', 100, 50, null, '{"service_tier": "priority"}') \gset
select is((budget.settle(:'r', null, 'unknown')).charged_nano_usd, 600000::bigint, 'the whole hold');
select is(
  (select concat_ws(' ', status, source, charged_nano_usd / 1000) from budget.settle_batch(jsonb_build_array(jsonb_build_object(
    'reservation_id', :'r', 'outcome', 'finished', 'usage', '{"input": 50, "output": 25}'::jsonb, 'service_tier', 'flex')))),
  'trued_up usage 75'
);
-- What was held as standard and served as a dearer tier is charged in full.
select reservation_id as r from budget.reserve(:'k', 'tiered', 100, 50) \gset
select is(
  (select concat_ws(' ', status, charged_nano_usd / 1000, overrun) from budget.settle_batch(jsonb_build_array(jsonb_build_object(
    'reservation_id', :'r', 'outcome', 'finished', 'usage', '{"input": 100, "output": 50}'::jsonb, 'service_tier', 'priority')))),
  'settled 600 t'
);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
