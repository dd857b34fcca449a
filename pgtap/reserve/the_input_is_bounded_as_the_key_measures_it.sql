begin;
select plan(17);
select budget_test.key(0.001) as k \gset
create function budget_test.ask(p_key text, p_input bigint, p_bounds jsonb) returns text language sql as $$
  select concat_ws(' ', coalesce(code, status), rung, coalesce(reserved_nano_usd, worst_case_nano_usd) / 1000)
  from budget.reserve(p_key, 't-mini', p_input, 0, null, jsonb_build_object('input_bounds', p_bounds))
$$;
create function budget_test.drop_holds() returns void language sql as $$
  select budget.settle(reservation_id, null, 'unsent') from budget_internal.reservations
$$;
\set bounds '{"tokenizer": 300, "chars3": 400, "bytes4": 200}'
select is(budget_test.ask(:'k', 800, :'bounds'), 'granted 800', 'by bytes unless the key says otherwise');
select budget_test.drop_holds(), budget.set_key('o', 'k', '{"input_bound": "chars3"}');
select is(budget_test.ask(:'k', 800, :'bounds'), 'granted 400');
select is(budget_test.ask(:'k', 500, '{"bytes4": 200}'), 'granted 500', 'bytes where the caller did not measure it so');
select budget_test.drop_holds(), budget.set_key('o', 'k', '{"input_bound": "bytes4"}');
select is(budget_test.ask(:'k', 800, :'bounds'), 'granted 200');
select budget_test.drop_holds(), budget.set_key('o', 'k', '{"input_bound": "tokenizer"}');
-- The tokenizer is tried only when bytes do not fit.
select is(budget_test.ask(:'k', 800, :'bounds'), 'granted 800', 'bytes fit');
select is(budget_test.ask(:'k', 800, '{"tokenizer": 200}'), 'granted 200', 'with 200 left they do not');
select is((select input_tokens from budget_internal.reservations order by reservation_id desc limit 1), 200::bigint);
select is(budget_test.ask(:'k', 800, '{"tokenizer": 1}'), 'budget_busy 800', 'what neither fits is answered by its bytes');
select is(budget_test.ask(:'k', 0, '{"tokenizer": 5}'), 'granted 0');
select budget_test.drop_holds();
select is(budget_test.ask(:'k', 1001, '{"tokenizer": 1002}'), 'request_over_limit 1001', 'it is never a looser bound');
-- A token limit takes the tighter bound too.
select budget.set_rate_limit('o', 'key', 'k', null, 500);
select is(budget_test.ask(:'k', 501, '{"tokenizer": 500}'), 'granted 500');
select budget.set_rate_limit('o', 'key', 'k', null, null);
select budget_test.drop_holds();
-- Every rung of a ladder goes by it: 300 x 1 + 100 x 4 fits where 800 x 1 + 100 x 4 does not.
select budget.set_ladder('o', 'key', 'k', '[{"name": "short", "max_output_tokens": 100}]');
select is((select code from budget.reserve(:'k', 't-mini', 800, 200)), 'request_over_limit');
select is((select rung || ' ' || reserved_nano_usd / 1000 from budget.reserve(:'k', 't-mini', 800, 200, null, '{"input_bounds": {"tokenizer": 300}}')), 'short 700');
select budget_test.drop_holds();
select is(
  (select code from budget.reserve(:'k', 't-mini', 500, 200, null, '{"input_bounds": {"tokenizer": null}}')), 'request_over_limit',
  'who can count counts before a rung is taken'
);
select is((select rung from budget.reserve(:'k', 't-mini', 500, 200)), 'short', 'who cannot has the rung');
-- The context window is the most that any input can be: 128,000.
select budget.set_budget('o', 'key', 'k', 1, 'day');
select is(budget_test.ask(:'k', 1000000, '{}'), 'granted 128000');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
