begin;
select plan(9);
select budget.set_model('x', 'm', null, null);
select budget.review_price(budget.add_price('x', 'm', '[
  {"kind": "input", "usd": "0.0000011", "per": 1000}, {"kind": "output", "usd": "0.000000001", "per": 3600},
  {"kind": "input", "usd": "2", "above_input_tokens": 272000}
]', '2020-01-01T00:00:00Z'), 'me');
select is(budget.quote('x', 'm', '{"input": 1}'), 2::bigint, '1.1 nano-USD round up');
select is(budget.quote('x', 'm', '{"input": 10}'), 11::bigint, 'exact stays exact');
select is(budget.quote('x', 'm', '{"input": 1, "output": 3240}'), 2::bigint, '1.1 + 0.9 are rounded once');
select is(budget.quote('x', 'm', '{"cache_read": 10}'), 11::bigint, 'a cached token without a discount is an input token');
select is(budget.quote('x', 'm', '{"input": 272000}'), 299200::bigint, 'at the cliff');
select is(budget.quote('x', 'm', '{"input": 272001}'), 544002000::bigint, 'over it');
select throws_ok($$select budget.quote('x', 'm', '{"audio_in": 1}')$$, 'LB103');
select throws_ok($$select budget.quote('x', 'm', '{"input": 1}', '2019-12-31T00:00:00Z')$$, 'LB103');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
