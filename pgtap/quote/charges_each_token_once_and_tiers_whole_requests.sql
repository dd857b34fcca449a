begin;
select plan(19);
create function pg_temp.cost(p_model text, p_usage jsonb) returns numeric
language sql
as $$ select budget.quote('simulator', p_model, p_usage, '2026-11-30T12:00:00Z') / 1000.0 $$;
-- PRICE-01, PRICE-02, PRICE-03: the dialects count each token in one kind; each kind is charged once.
select is(pg_temp.cost('t-mini', '{"input": 1000, "cache_read": 9000, "output": 100}'), 3650.0);
select is(pg_temp.cost('c-son', '{"input": 86, "cache_read": 20000, "output": 50}'), 7008.0);
select is(pg_temp.cost('t-mini', '{"input": 2008, "output": 5, "reasoning": 261}'), 3072.0, 'reasoning without a price of its own is output');
select is(pg_temp.cost('t-mini', '{"input": 50, "output": 100}'), 450.0);
select is(pg_temp.cost('t-mini', '{"input": 14, "output": 6, "reasoning": 1466}'), 5902.0);
-- PRICE-05: a tier is decided by all of the input, and reprices all of the request.
select budget.set_model('x', 'tiered', null, null);
select budget.add_price('x', 'tiered', '[
  {"kind": "input", "usd": "3"}, {"kind": "cache_read", "usd": "0.3"}, {"kind": "output", "usd": "15"},
  {"kind": "input", "usd": "6", "above_input_tokens": 200000}, {"kind": "cache_read", "usd": "0.6", "above_input_tokens": 200000},
  {"kind": "output", "usd": "22.5", "above_input_tokens": 200000}, {"kind": "web_search", "usd": "10", "per": 1000},
  {"kind": "input", "usd": "1.5", "variant": "batch"}, {"kind": "output", "usd": "7.5", "variant": "batch"},
  {"kind": "input", "usd": "9", "variant": "priority"}, {"kind": "output", "usd": "30", "variant": "priority"}
]', '2020-01-01T00:00:00Z') as price \gset
select budget.review_price(:price, 'me');
create function pg_temp.tiered(p_usage jsonb, p_variant text default 'standard') returns numeric
language sql
as $$ select budget.quote('x', 'tiered', p_usage, null, p_variant) / 1000.0 $$;
select is(pg_temp.tiered('{"input": 150000, "cache_read": 60000, "output": 1000}'), 958500.0);
select is(pg_temp.tiered('{"input": 200000, "output": 1000}'), 615000.0);
select is(pg_temp.tiered('{"input": 200001, "output": 1000}'), 1222506.0);
select is(budget_internal.worst_case(:price, 'standard', 250000, 1000, '{}', now()), 1522500000.0, 'the hold of 250,000 and 1,000');
-- PRICE-07: a fee is charged for what was done, and held for where it was asked for.
select is(pg_temp.tiered('{"input": 100, "output": 10}'), 450.0);
select is(pg_temp.tiered('{"input": 100, "output": 10, "web_search": 2}'), 20450.0);
select is(budget_internal.worst_case(:price, 'standard', 100, 10, '{}', now()), 450000.0);
select is(budget_internal.worst_case(:price, 'standard', 100, 10, '{web_search}', now()), 10450000.0);
select is(budget_internal.worst_case(:price, 'standard', 100, 10, '{file_search}', now()), null, 'what has no price is not held as zero');
-- Variants are lists of their own.
select is(pg_temp.tiered('{"input": 300000, "output": 1000}', 'batch'), 457500.0);
select is(pg_temp.tiered('{"input": 300000, "output": 1000}', 'priority'), 2730000.0);
select throws_ok($$select pg_temp.tiered('{"input": 1, "web_search": 1}', 'batch')$$, 'LB103');
select throws_ok($$select pg_temp.tiered('{"input": 1}', 'flex')$$, 'LB103', null, 'one without a list has no price');
-- An explicit zero is a price.
select budget.set_model('x', 'free', null, null);
select budget.review_price(budget.add_price('x', 'free', '[{"kind": "input", "usd": 0}]', '2020-01-01T00:00:00Z'), 'me');
select is(budget.quote('x', 'free', '{"input": 5}'), 0::bigint);
select * from finish();
rollback;
