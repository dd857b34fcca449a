begin;
select plan(22);
create function pg_temp.model(p_model text, p_usd text) returns void
language sql
as $$
  select budget.set_model('x', p_model, 1000, 10);
  select budget.review_price(budget.add_price(
    'x', p_model, jsonb_build_array(jsonb_build_object('kind', 'input', 'usd', p_usd), jsonb_build_object('kind', 'output', 'usd', p_usd)),
    '2020-01-01T00:00:00Z'
  ), 'me');
$$;
select pg_temp.model('pro', '1'), pg_temp.model('mini', '2'), pg_temp.model('old', '3');
select budget.set_alias('x', 'pro-latest', 'pro');
create function pg_temp.cost(p_model text) returns bigint
language sql
as $$ select budget.quote('x', p_model, '{"input": 1}') / 1000 $$;
select throws_ok($$select pg_temp.cost('pro-latest')$$, 'LB103', null, 'one that nobody has reviewed prices nothing');
select budget.review_alias('x', 'pro-latest', 'ann');
select is(pg_temp.cost('pro-latest'), 1::bigint);
select throws_ok($$select budget.review_alias('x', 'pro-latest', 'ann')$$, 'LB101', null, 'it is reviewed once');
select budget.set_alias('x', 'pro-latest', 'pro');
select is(pg_temp.cost('pro-latest'), 1::bigint, 'the same again changes nothing');
select budget.set_alias('x', 'pro-latest', 'mini');
select throws_ok($$select pg_temp.cost('pro-latest')$$, 'LB103', null, 'another model needs a review');
select budget.review_alias('x', 'pro-latest', 'ann');
select is(pg_temp.cost('pro-latest'), 2::bigint);

select budget.set_alias('x', 'pro-2*', 'pro'), budget.set_alias('x', 'pro-2027*', 'old'), budget.set_alias('x', 'p_o-*-x', 'mini');
select throws_ok($$select pg_temp.cost('pro-2026-01-15')$$, 'LB103');
select budget.review_alias('x', a, 'ann') from unnest(array['pro-2*', 'pro-2027*', 'p_o-*-x']) a;
select is(pg_temp.cost('pro-2026-01-15'), 1::bigint, 'a pattern');
select is(pg_temp.cost('pro-2027-01-15'), 3::bigint, 'the longest that matches');
select is(pg_temp.cost('pro-2'), 1::bigint, '* may be nothing');
select is(pg_temp.cost('p_o-9-x'), 2::bigint);
select throws_ok($$select pg_temp.cost('pro-9-x')$$, 'LB103', null, 'only * means something');
-- MODEL-01, MODEL-02: near a name is not the name.
select throws_ok(format('select pg_temp.cost(%L)', m), 'LB103', null, format('%L is not pro', m))
from unnest(array['PRO', 'pro ', 'p.o', 'pro-mini', 'x/pro', 'ft:pro:acme::x1']) m;
select pg_temp.model('pro-2026-06-01', '4');
select is(pg_temp.cost('pro-2026-06-01'), 4::bigint, 'a price of its own comes first');

-- A route to an alias has the price and the limits of its model.
select budget.set_route(null, 'r', 'x', 'main', 'pro-2026-01-15');
select budget_test.key(1) as key \gset
select results_eq(format($$select status::text, reserved_nano_usd::bigint, granted_output_tokens::bigint from budget.reserve(%L, 'r', 5000, 50)$$, :'key'),
  $$ values ('granted', 1010000::bigint, 10::bigint) $$);
select budget.set_alias('x', 'pro-2*', null);
select is((select code from budget.reserve(:'key', 'r', 5000, 50)), 'model_unpriced', 'an alias that is gone prices nothing');
select throws_ok($$select budget.set_alias('x', 'y', 'nobody')$$, 'LB101');
select * from finish();
rollback;
