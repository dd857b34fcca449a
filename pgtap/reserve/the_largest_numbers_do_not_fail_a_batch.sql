begin;
select plan(5);
select budget_test.key() as k \gset
select budget.set_model('simulator', 'boundless', 1000, null), budget.set_route(null, 'boundless', 'simulator', 'simulator');
-- Nothing but the requests of a minute bounds this key, and no one knows what the model can write at most.
select budget.set_rate_limit('o', 'key', 'k', 10, null);
select results_eq(
  format($$select status, granted_output_tokens from budget.reserve_batch(jsonb_build_array(
    jsonb_build_object('key', %1$L, 'model', 't-mini', 'input_tokens', 1, 'max_output_tokens', 1),
    jsonb_build_object('key', %1$L, 'model', 'boundless', 'input_tokens', 1000000000000, 'max_output_tokens', 9223372036854775807,
      'request_id', 'huge', 'options', '{"n": 1000}'::jsonb)
  ))$$, :'k'),
  $$values ('granted', 1::bigint), ('granted', 1000000000000)$$, 'the neighbour is granted, the cap is the most that usage can have'
);
select is((select status from budget.reserve(:'k', 't-mini', 1, 1)), 'granted', 'and so is the next call of that minute');
select is(
  (select status from budget.settle((select reservation_id from budget_internal.reservations where request_id = 'huge'), null, 'unknown')),
  'charged', 'its end is booked'
);
select budget.set_model('simulator', 'boundless', 9223372036854775807, null);
select is(
  (select status from budget.reserve(:'k', 'boundless', 1, 1, null, '{"inputs": 100000}')), 'granted', 'nor does the widest window'
);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
