begin;
select plan(9);
select budget_test.key(1) as k \gset
-- $1 and $4 a million tokens, $10 for 1,000 searches.
select budget.set_model('simulator', 'searching', 1000, 100);
select budget.review_price(budget.add_price('simulator', 'searching', '[{"kind": "input", "usd": 1}, {"kind": "output", "usd": 4},
  {"kind": "web_search", "usd": 10, "per": 1000}]', '2020-01-01T00:00:00Z'), 'me');
select budget.set_route('o', 'searching', 'simulator', 'simulator');
create function budget_test.ask(p_key text, p_options jsonb) returns text language sql as $$
  select concat_ws(' ', coalesce(code, status), reserved_nano_usd / 1000) from budget.reserve(p_key, 'searching', 100, 50, null, p_options)
$$;
select is(budget_test.ask(:'k', '{}'), 'granted 300', '100 + 200');
select is(budget_test.ask(:'k', '{"features": ["web_search"]}'), 'granted 10300', 'one search');
select is(budget_test.ask(:'k', '{"uses": {"web_search": 3}}'), 'granted 30300', 'three');
select is(budget_test.ask(:'k', '{"features": ["web_search"], "uses": {"web_search": 3}}'), 'granted 30300', 'named twice is three too');
select is((select sum((l ->> 'quantity')::int)::int from budget.explain(:'k', 'searching', 100, 50, '{"uses": {"web_search": 3}}') e, jsonb_array_elements(e -> 'price_lines') l
  where l ->> 'kind' = 'web_search'), 3, 'explain prints the line');
select is(budget_test.ask(:'k', '{"uses": {"web_search": 101}}'), 'invalid_request');
select is(budget_test.ask(:'k', '{"uses": {"image_in": 2}}'), 'invalid_request', 'only what has a fee');
select is(budget_test.ask(:'k', '{"uses": {"file_search": 2}}'), 'model_unpriced', 'a fee without a price is not zero');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
