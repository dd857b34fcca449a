begin;
select plan(21);
-- t-mini: 100 tokens in are 100, each token out is 4. The first slice of 50 holds 300.
select budget_test.key(0.001, '{"first_output_tokens": 50}') as k \gset
create function budget_test.grow(p_id uuid, p_tokens bigint) returns text language sql as $$
  select concat_ws(' ', coalesce(code, status), granted_output_tokens, reserved_nano_usd / 1000) from budget.extend(p_id, p_tokens)
$$;
select is((select granted_output_tokens || ' ' || coalesce(cap_output_tokens::text, 'none') || ' ' || reserved_nano_usd / 1000 from budget.reserve(:'k', 't-mini', 100, 200)),
  '200 none 900', 'a caller that cannot extend holds the whole cap');
select budget.settle(reservation_id, null, 'unsent') from budget_internal.reservations;

select reservation_id as r, granted_output_tokens || ' ' || cap_output_tokens || ' ' || reserved_nano_usd / 1000 as first
from budget.reserve(:'k', 't-mini', 100, 200, 'r', '{"grow": true}') \gset
select is(:'first'::text, '50 200 300');
select is((select granted_output_tokens || ' ' || cap_output_tokens from budget.reserve(:'k', 't-mini', 100, 200, 'r', '{"grow": true}')), '50 200', 'a repeat says the same');
select is(budget_test.grow(:'r', 100), 'granted 100 500');
select is(budget_test.grow(:'r', 100), 'granted 100 500', 'counted from the start: the same again changes nothing');
select is(budget_test.grow(:'r', 60), 'granted 100 500', 'a hold never shrinks');
select is(budget_test.grow(:'r', 1000), 'granted 200 900', 'up to the cap');
select results_eq('select * from budget_test.counters()', 'values (0::bigint, 900::bigint)');

-- Beside another call with 500 of 1,500.
select budget.set_budget('o', 'key', 'k', 0.0015, 'day');
select reservation_id as s from budget.reserve(:'k', 't-mini', 100, 200, 's', '{"grow": true}') \gset
select is(budget_test.grow(:'s', 150), 'granted 125 600', 'as far as it fits, exactly');
select is(budget_test.grow(:'s', 150), 'budget_busy 125 600', 'what is held stays held');
select budget.settle(:'r', '{"input": 100, "output": 200}');
select is(budget_test.grow(:'s', 150), 'budget_exceeded 125 600', 'spent is not others'' holds');
select is((select scope_name || ' ' || budget_name || ' ' || available_nano_usd from budget.extend(:'s', 126)), 'k day 0', 'the budget in the way is named');
select is((select status || ' ' || charged_nano_usd / 1000 from budget.settle(:'s', '{"input": 100, "output": 125}')), 'settled 600');
select is(budget_test.grow(:'s', 150), 'reservation_ended');
select is(budget_test.grow('00000000-0000-0000-0000-000000000000', 150), 'reservation_ended');

-- All streams of a proxy in one call, in order; a bad one fails alone.
select budget.set_budget('o', 'key', 'k', 0.0023, 'day');
select reservation_id as a from budget.reserve(:'k', 't-mini', 100, 200, 'a', '{"grow": true}') \gset
select reservation_id as b from budget.reserve(:'k', 't-mini', 100, 200, 'b', '{"grow": true}') \gset
select results_eq(
  format($$select item, coalesce(code, status), granted_output_tokens from budget.extend_batch(%L)$$, jsonb_build_array(
    jsonb_build_object('reservation_id', :'a', 'output_tokens', 75), jsonb_build_object('reservation_id', 'x', 'output_tokens', 1),
    jsonb_build_object('reservation_id', :'b', 'output_tokens', 100))),
  $$values (1, 'granted', 75::bigint), (2, 'invalid_request', null), (3, 'granted', 75)$$, '800 of 800 are held: 400 each'
);
select results_eq('select * from budget_test.counters()', 'values (1500::bigint, 800::bigint)');
-- A stale call is not extended.
select budget_test.at('2100-01-01 00:00:00+00');
select is(budget_test.grow(:'a', 80), 'reservation_ended');
select throws_ok($$select budget.extend_batch('{}')$$, 'LB101');
select is((select code from budget.extend(:'a', 0)), 'invalid_request');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
