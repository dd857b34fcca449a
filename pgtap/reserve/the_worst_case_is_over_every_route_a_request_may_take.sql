begin;
select plan(12);
select budget_test.key(1) as k \gset
create function budget_test.ask(p_key text, p_input bigint, p_output bigint, p_options jsonb default '{}') returns text language sql as $$
  select concat_ws(' ', coalesce(code, status), granted_output_tokens, reserved_nano_usd / 1000) from budget.reserve(p_key, 'm', p_input, p_output, null, p_options)
$$;
-- Weighted: each may be the first; fallback: each may be the last. t-mini 100 + 800, c-son 300 + 3,000, t-pro 500 + 6,000.
select budget.set_routes('o', 'm', '[{"provider": "simulator", "account": "simulator", "upstream_model": "t-mini", "weight": 9},
  {"provider": "simulator", "account": "simulator", "upstream_model": "c-son", "weight": 1}]');
select is(budget_test.ask(:'k', 100, 200), 'granted 200 3300');
select budget.set_routes('o', 'm', '[{"provider": "simulator", "account": "simulator", "upstream_model": "t-mini", "priority": 1},
  {"provider": "simulator", "account": "simulator", "upstream_model": "c-son", "priority": 2}, {"provider": "simulator", "account": "simulator", "upstream_model": "t-pro", "priority": 3}]');
select is(budget_test.ask(:'k', 100, 200), 'granted 200 6500');
select is((select string_agg(e.route ->> 'upstream_model', ' ' order by e.place) from budget.reserve(:'k', 'm', 1, 1) g, jsonb_array_elements(g.routes) with ordinality e (route, place)),
  't-mini c-son t-pro', 'the plan in its order');
-- A feature must have a price on every route.
select is(budget_test.ask(:'k', 100, 200, '{"features": ["cache_write_1h"]}'), 'model_unpriced', 'only c-son has one');
-- One cap for all: the smallest that every route allows, 16,384 of t-mini.
select is(budget_test.ask(:'k', 0, 20000), 'granted 16384 491520');
select is(budget_test.ask(:'k', 0, null), 'granted 8192 245760', 'the configured default, else 8,192');
select budget.settle(reservation_id, null, 'unsent') from budget_internal.reservations;
-- The input is cut at the widest context window of the plan: 400,000 of t-pro x 5.
select budget.set_budget('o', 'key', 'k', 3, 'day');
select is(budget_test.ask(:'k', 1000000, 0), 'granted 0 2000000');
-- One route without a reviewed price is enough to refuse, wherever it stands.
select budget.set_model('simulator', 'unpriced', 1000, 10);
select budget.set_routes('o', 'm', '[{"provider": "simulator", "account": "simulator", "upstream_model": "t-mini", "priority": 1},
  {"provider": "simulator", "account": "simulator", "upstream_model": "unpriced", "priority": 2}]');
select is(budget_test.ask(:'k', 1, 1), 'model_unpriced');
select budget.add_price('simulator', 'unpriced', '[{"kind": "input", "usd": "7"}, {"kind": "output", "usd": "7"}]', '2020-01-01T00:00:00Z') as price \gset
select is(budget_test.ask(:'k', 1, 1), 'model_unpriced', 'not before it is reviewed');
select budget.review_price(:price, 'me');
select is(budget_test.ask(:'k', 1, 1), 'granted 1 14');
-- The account's budget is the last of the chain, of every account in the plan.
select budget.set_routes('o', 'm', '[{"provider": "simulator", "account": "simulator", "upstream_model": "t-mini", "priority": 1},
  {"provider": "simulator", "account": "other", "upstream_model": "t-mini", "priority": 2}]');
select budget.set_budget(null, 'account', 'other', 0.0001, 'day');
select is((select code || ' ' || scope_kind || ' ' || scope_name from budget.reserve(:'k', 'm', 101, 0)), 'request_over_limit account other');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
