begin;
select plan(8);
select budget_test.key(0.001) as k \gset
select budget.set_rate_limit('o', 'key', 'k', 2, null);
create function budget_test.told(p_key text, p_model text default 't-mini', p_input bigint default 1001) returns text language sql as $$
  select concat_ws(' ', code, (
    select string_agg(concat_ws(':', r.provider, r.upstream_model), ' ' order by 1)
    from jsonb_to_recordset(routes) r (provider text, upstream_model text)
  )) from budget.reserve(p_key, p_model, p_input, 0)
$$;
select is(budget_test.told(:'k'), 'request_over_limit', 'by bytes there is nothing to count');
select budget.set_key('o', 'k', '{"input_bound": "tokenizer"}');
select is(budget_test.told(:'k'), 'request_over_limit simulator:t-mini');
select is(budget_test.told(:'k', 'gone'), 'model_not_found', 'a smaller input does not mend this');
-- The routes of the org are instead of those of all; a rung may lead elsewhere, of the ladder that counts.
select budget.set_routes('o', 't-mini', '[
  {"provider": "simulator", "account": "simulator", "upstream_model": "t-mini"},
  {"provider": "simulator", "account": "simulator", "upstream_model": "t-pro", "priority": 2}
]');
select is(budget_test.told(:'k'), 'request_over_limit simulator:t-mini simulator:t-pro');
select budget.set_ladder('o', 'org', 'o', '[{"name": "far", "model": "c-son"}]');
select is(budget_test.told(:'k'), 'request_over_limit simulator:c-son simulator:t-mini simulator:t-pro');
select budget.set_ladder('o', 'key', 'k', '[{"name": "near", "model": "gone"}, {"name": "less", "max_output_tokens": 1}]');
select is(budget_test.told(:'k'), 'request_over_limit simulator:t-mini simulator:t-pro');
select budget.set_rate_limit('o', 'key', 'k', null, 1000);
select is(budget_test.told(:'k'), 'request_over_limit simulator:t-mini simulator:t-pro', 'above all tokens of a minute');
select budget.set_rate_limit('o', 'key', 'k', 1, null);
select budget.reserve(:'k', 't-mini', 0, 0);
select is(budget_test.told(:'k'), 'rate_limit_exceeded', 'nor this');
select * from finish();
rollback;
