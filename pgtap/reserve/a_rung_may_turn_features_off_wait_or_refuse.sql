begin;
select plan(16);
select budget_test.at('2027-01-15 12:00:00+00');
select budget_test.key(0.0009) as k \gset
create function budget_test.ask(p_key text, p_model text, p_output bigint, p_options jsonb default '{}') returns text language sql as $$
  select concat_ws(' ', coalesce(code, status), rung, rung_changes::text, retry_after_seconds) from budget.reserve(p_key, p_model, 100, p_output, null, p_options)
$$;
-- c-son: 100 x 6 with a cache write of an hour, 100 x 3 without, 15 for each output token.
select budget.set_ladder('o', 'key', 'k', '[{"name": "plain", "features_off": ["cache_write_1h"]}, {"name": "wait", "wait_seconds": 5},
  {"name": "cheap", "model": "t-mini"}]');
select is(budget_test.ask(:'k', 'c-son', 40, '{"features": ["cache_write_1h"]}'), 'granted plain {"features_off": ["cache_write_1h"]}', '300 + 600, not 600 + 600');
select is((select features::text from budget_internal.reservations), '{}', 'without the feature');
-- The budget is full of others' holds: wait, though the rung after it would not fit either.
select is(budget_test.ask(:'k', 'c-son', 40), 'budget_busy wait {"wait_seconds": 5} 1');
select is(budget_test.ask(:'k', 't-mini', 200), 'budget_busy wait {"wait_seconds": 5} 1');
-- More than the whole limit: nothing to wait for, the next rung is tried.
select is(budget_test.ask(:'k', 'c-son', 41), 'request_over_limit', 'it does not wait, and cheap does not fit');
select budget.release(reservation_id) from budget_internal.reservations;
select is(budget_test.ask(:'k', 'c-son', 41), 'granted cheap {"model": "t-mini"}', '915 of 900; 264 with t-mini');
-- Spent: nothing to wait for either.
select budget.settle(reservation_id, '{"input": 800}') from budget_internal.reservations;
select is(budget_test.ask(:'k', 't-mini', 1), 'budget_exceeded 43200', 'it resets at midnight');
-- A rung that refuses ends the ladder, and is named.
select budget.set_budget('o', 'key', 'k', 1, 'day'), budget.set_budget('o', 'project', 'p', 0.001, 'total');
select budget.set_ladder('o', 'key', 'k', '[{"name": "short", "max_output_tokens": 200}, {"name": "stop", "refuse": true}]');
select is(budget_test.ask(:'k', 't-mini', 226), 'granted short {"max_output_tokens": 200}');
select is((select code || ' ' || rung from budget.reserve(:'k', 't-mini', 100, 300)), 'request_over_limit stop', 'refused for the reason of the request as it was asked');
select is((select code || ' ' || rung from budget.reserve(:'k', 't-mini', 100, 100)), 'budget_busy stop');
-- Every rung of a batch's item is tried before the next item.
select budget.release(reservation_id) from budget_internal.reservations;
select budget.set_ladder('o', 'key', 'k', '[{"name": "short", "max_output_tokens": 50}]');
select is((
  select string_agg(concat_ws(' ', coalesce(code, status), rung), ', ' order by item) from budget.reserve_batch((
    select jsonb_agg(jsonb_build_object('key', :'k', 'model', 't-mini', 'input_tokens', 100, 'max_output_tokens', o)) from unnest(array[100, 150, 200, 1]) o
  ))
), 'granted, granted short, budget_busy, granted', '500 + 300 of 1,000, then 104');

-- Of the ladders of key, project and org the first there is.
select budget.release(reservation_id) from budget_internal.reservations;
select budget.set_ladder('o', 'org', 'o', '[{"name": "of the org", "max_output_tokens": 1}]');
select is(budget_test.ask(:'k', 't-mini', 400), 'granted short {"max_output_tokens": 50}', 'the key has its own');
select budget.set_ladder('o', 'project', 'p', '[{"name": "of the project", "max_output_tokens": 2}]'), budget.set_ladder('o', 'key', 'k', '[]');
select is(budget_test.ask(:'k', 't-mini', 400), 'granted of the project {"max_output_tokens": 2}');
select budget.set_ladder('o', 'project', 'p', '[]');
select is(budget_test.ask(:'k', 't-mini', 400), 'granted of the org {"max_output_tokens": 1}');
select budget.set_ladder('o', 'org', 'o', '[]');
select is(budget_test.ask(:'k', 't-mini', 400), 'request_over_limit', 'none');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
