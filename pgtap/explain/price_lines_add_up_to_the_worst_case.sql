begin;
select plan(5);
select budget_test.key(1) as k \gset
select budget.set_model('made-up', 'tiered', 400000, 1000);
select budget.review_price(budget.add_price('made-up', 'tiered', '[
  {"kind": "input", "usd": "2"}, {"kind": "output", "usd": "10"}, {"kind": "request", "usd": "0.01", "per": 1},
  {"kind": "input", "usd": "4", "above_input_tokens": 1000}, {"kind": "output", "usd": "15", "above_input_tokens": 1000},
  {"kind": "web_search", "usd": "10", "per": 1000}]', '2020-01-01T00:00:00Z', 'made up'), 'me');
select budget.set_route(null, 'tiered', 'made-up', 'made-up');
-- Above the cliff: 1001 x $4 + 100 x $15 a million + $0.01 + $0.01 for a search.
select budget.explain(:'k', 'tiered', 1001, 100, '{"features": ["web_search"]}') as e \gset
select is(
  (select string_agg(concat_ws(' ', l ->> 'kind', l ->> 'quantity', l ->> 'rate_usd', l ->> 'per', l ->> 'above_input_tokens', l ->> 'cost_nano_usd'), ', ')
    from jsonb_array_elements(:'e'::jsonb -> 'price_lines') l),
  'input 1001 4 1000000 1000 4004000, output 100 15 1000000 1000 1500000, request 1 0.01 1 0 10000000, web_search 1 10 1000 0 10000000'
);
select is((:'e'::jsonb ->> 'worst_case_usd')::numeric, 0.025504);
select budget.explain(:'k', 'tiered', 1000, 100) as e \gset
select is((select sum((l ->> 'cost_nano_usd')::numeric) from jsonb_array_elements(:'e'::jsonb -> 'price_lines') l), 13000000::numeric, 'at the cliff the base rates');
select is((:'e'::jsonb ->> 'worst_case_usd')::numeric, 0.013);
select is((select count(*)::int from jsonb_array_elements(budget.explain(:'k', 'tiered', 1, 1) -> 'price_lines')), 3, 'a search that is not asked for has no line');
select * from finish();
rollback;
