begin;
select plan(16);
select budget_test.key(0.006, '{"allowed_models": ["t-pro", "t-mini", "gone"]}') as k \gset
prepare asked as select coalesce(code, status), rung, rung_changes, granted_output_tokens, reserved_nano_usd / 1000, routes #>> '{0,upstream_model}'
  from budget.reserve(:'k', 't-pro', 100, 200);
create function budget_test.drop_holds() returns void language sql as $$
  select budget.settle(reservation_id, null, 'unsent') from budget_internal.reservations
$$;
-- As asked 6,500. In order: 100 tokens of t-pro are 3,500, t-mini is 900.
select budget.set_ladder('o', 'key', 'k', '[{"name": "short", "max_output_tokens": 100}, {"name": "cheap", "model": "t-mini"}, {"name": "tiny", "model": "t-mini", "max_output_tokens": 10}]');
select results_eq('asked', $$values ('granted', 'short', '{"max_output_tokens": 100}'::jsonb, 100::bigint, 3500::bigint, 't-pro')$$, 'the first that fits');
select results_eq('asked', $$values ('granted', 'cheap', '{"model": "t-mini"}'::jsonb, 200::bigint, 900::bigint, 't-mini')$$, 'of 2,500 left the second');
select results_eq('asked', $$values ('granted', 'cheap', '{"model": "t-mini"}'::jsonb, 200::bigint, 900::bigint, 't-mini')$$);
-- 700 are left: 100 + 40.
select results_eq('asked', $$values ('granted', 'tiny', '{"model": "t-mini", "max_output_tokens": 10}'::jsonb, 10::bigint, 140::bigint, 't-mini')$$);
select results_eq('select sum(held) from budget_test.counters()', 'values (5440::numeric)', 'nothing is held on the other rungs');
select is((select string_agg(rung, ' ' order by reservation_id) from budget_internal.reservations), 'short cheap cheap tiny');
-- What no rung fits is answered as it was asked.
select budget.set_budget('o', 'key', 'k', 0.0055, 'day');
select results_eq(
  $$select code, rung, worst_case_nano_usd / 1000 from budget.reserve($$ || quote_literal(:'k') || $$, 't-pro', 100, 200)$$,
  $$values ('request_over_limit', null::text, 6500::bigint)$$
);
-- What fits as asked needs no rung.
select budget_test.drop_holds(), budget.set_budget('o', 'key', 'k', 0.0065, 'day');
select results_eq('asked', $$values ('granted', null::text, null::jsonb, 200::bigint, 6500::bigint, 't-pro')$$);
select budget_test.drop_holds();
-- Another order is another answer.
select budget.set_budget('o', 'key', 'k', 0.006, 'day');
select budget.set_ladder('o', 'key', 'k', '[{"name": "none", "model": "gone"}, {"name": "cheap", "model": "t-mini"}, {"name": "short", "max_output_tokens": 100}]');
select is((select rung from budget.reserve(:'k', 't-pro', 100, 200)), 'cheap', 'a rung that cannot be is passed over');
-- A rung never raises a cap, and a request that is wrong in itself is wrong on every rung.
select budget.set_ladder('o', 'key', 'k', '[{"name": "long", "model": "t-mini", "max_output_tokens": 300}]');
select is((select granted_output_tokens from budget.reserve(:'k', 't-pro', 100, 200)), 200::bigint);
select is((select code from budget.reserve(:'k', 'c-son', 100, 200)), 'model_not_allowed');
select is((select code from budget.reserve(:'k', 'gone', 1, 1)), 'model_not_found');
select budget.set_rate_limit('o', 'key', 'k', 2, null);
select budget.set_ladder('o', 'key', 'k', '[{"name": "cheap", "model": "t-mini"}]');
select is((select status from budget.reserve(:'k', 't-pro', 100, 200)), 'granted');
select budget.set_rate_limit('o', 'key', 'k', 1, null);
select is((select code from budget.reserve(:'k', 't-pro', 100, 200)), 'rate_limit_exceeded', 'no rung makes fewer requests');
select budget.set_rate_limit('o', 'key', 'k', null, null);
-- An earlier grant is repeated with its rung.
select budget.reserve(:'k', 't-pro', 100, 200, 'r');
select is((select status || ' ' || rung from budget.reserve(:'k', 't-pro', 100, 200, 'r')), 'granted_again cheap');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
