begin;
select plan(22);
select budget_test.key(1, '{"run_ceiling_usd": "0.0027", "run_max_steps": 3}') as k \gset
select secret as l from budget.create_key('o', 'p', 'l') \gset
create function budget_test.call(p_key text, p_run jsonb, p_input bigint, p_request_id text default null) returns text language sql as $$
  select concat_ws(' ', coalesce(code, status), scope_kind, scope_name, available_nano_usd / 1000)
  from budget.reserve(p_key, 't-mini', p_input, 0, p_request_id, jsonb_build_object('run', p_run))
$$;
create function budget_test.run(p_key text, p_run text) returns text language sql as $$
  select concat_ws(' ', status, ceiling_nano_usd / 1000, spent_nano_usd / 1000, held_nano_usd / 1000, steps, max_steps)
  from budget.start_run(p_key, p_run)
$$;
-- What is refused makes no run.
select is(budget_test.call(:'k', '{"id": "a", "ceiling_usd": "0.0028"}', 1), 'invalid_request', 'more than a run of the key may cost');
select is(budget_test.call(:'k', '{"id": "a", "max_steps": 4}', 1), 'invalid_request', 'more steps than it may take');
select is(budget_test.call(:'k', '{"id": "a"}', 2701), 'request_over_limit run a 2700', 'the ceiling of the key is that of the run');
select is((select count(*) from budget_internal.runs), 0::bigint);
-- The first that is granted makes it, with its ceiling.
select is(budget_test.call(:'k', '{"id": "a", "ceiling_usd": "0.0018", "max_steps": 2}', 900, 'x'), 'granted');
select is(budget_test.run(:'k', 'a'), 'running 1800 0 900 1 2');
select is((select string_agg(held::text, ' ') from budget_test.counters()), '900 900', 'the run is one more budget of the chain');
select is(budget_test.call(:'k', '{"id": "a"}', 901), 'budget_busy run a 900');
select is(budget_test.call(:'k', '{"id": "a", "ceiling_usd": "0.0027"}', 1801), 'request_over_limit run a 900', 'a later ceiling does not raise it');
select is(budget_test.call(:'k', '{"id": "a"}', 900, 'x'), 'granted_again', 'no step');
select is(budget_test.run(:'k', 'a'), 'running 1800 0 900 1 2', 'nor is a refusal');
select budget.settle((select reservation_id from budget_internal.reservations), '{"input": 800}');
select is(budget_test.call(:'k', '{"id": "a"}', 1001), 'budget_exceeded run a 1000');
select is(budget_test.call(:'k', '{"id": "a"}', 0), 'granted', 'the second of two steps');
select is(budget_test.call(:'k', '{"id": "a"}', 0), 'budget_exceeded run a 1000', 'what costs nothing is a step too');
select results_eq(
  $$select retry_after_seconds, message from budget.reserve($$ || quote_literal(:'k') || $$, 't-mini', 1, 0, null, '{"run": {"id": "a"}}')$$,
  $$values (null::integer, 'run "a" has taken its 2 steps; start another run')$$, 'waiting does not help'
);
-- Another key's run of that name is another run; without a ceiling of its key or request it has none.
select is(budget_test.call(:'l', '{"id": "a"}', 100000), 'granted');
select is(budget_test.run(:'l', 'a'), 'running 0 100000 1');
-- What is left of the key decides as always, and the steps of the key's maximum hold by default.
select is(budget_test.call(:'k', '{"id": "b"}', 900), 'granted');
select is(budget_test.run(:'k', 'b'), 'running 2700 0 900 1 3');
-- One batch: the first call makes the run, those after it count in it, two runs at once.
select is((
  select string_agg(concat_ws(' ', coalesce(code, status), scope_name), ', ' order by item) from budget.reserve_batch((
    select jsonb_agg(jsonb_build_object('key', :'k', 'model', 't-mini', 'input_tokens', 900, 'max_output_tokens', 0,
      'options', jsonb_build_object('run', jsonb_build_object('id', r))) order by place)
    from unnest(array['c', 'd', 'c', 'c', 'c', 'd']) with ordinality i (r, place)
  ))
), 'granted, granted, granted, granted, budget_exceeded c, granted', 'three steps of run c');
select is((select count(*) from budget_internal.runs), 5::bigint);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
