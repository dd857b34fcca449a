begin;
select plan(13);
select budget.set_model('x', 'm', null, null);
create function pg_temp.add(p_usd text, p_from text) returns bigint
language sql
as $$ select budget.add_price('x', 'm', jsonb_build_array(jsonb_build_object('kind', 'input', 'usd', p_usd)), p_from::timestamptz) $$;
create function pg_temp.at(p_at text) returns bigint
language sql
as $$ select budget.quote('x', 'm', '{"input": 1}', p_at::timestamptz) $$;
select budget.review_price(pg_temp.add('0.001', '2026-01-01T00:00:00Z'), 'ann');
select pg_temp.add('0.003', '2026-03-01T00:00:00Z') as third \gset
select is(pg_temp.at('2026-03-02T00:00:00Z'), 1::bigint, 'one that nobody has reviewed charges nobody');
select budget.review_price(:third, 'ben');
select is(pg_temp.at('2026-02-28T23:59:59.999Z'), 1::bigint);
select is(pg_temp.at('2026-03-01T00:00:00Z'), 3::bigint, 'from its first moment');
select budget.review_price(pg_temp.add('0.002', '2026-02-01T00:00:00Z'), 'ann');
select is(pg_temp.at('2026-01-31T23:59:59Z'), 1::bigint, 'one in between');
select is(pg_temp.at('2026-02-01T00:00:00Z'), 2::bigint);
select is(pg_temp.at('2026-03-01T00:00:00Z'), 3::bigint);
select results_eq($$
  select effective_from at time zone 'UTC', effective_to at time zone 'UTC', reviewed_by from budget.price_list
  where provider = 'x' order by effective_from
$$, $$ values
  (timestamp '2026-01-01', timestamp '2026-02-01', 'ann'), ('2026-02-01', '2026-03-01', 'ann'), ('2026-03-01', null, 'ben')
$$, 'each ends where the next begins');
select budget.review_price(pg_temp.add('0.009', '2025-01-01T00:00:00Z'), 'ann');
select is(pg_temp.at('2025-12-31T23:59:59Z'), 9::bigint, 'history comes before all of them');
select throws_ok(format('select budget.review_price(%s, %L)', :third, 'ann'), 'LB101');
select throws_ok($$select budget.review_price(pg_temp.add('1', '2027-01-01T00:00:00Z'), '')$$, 'LB101');
select throws_ok($$select budget.review_price(-1, 'ann')$$, 'LB101');
select throws_ok($$
  insert into budget_internal.prices (provider, model, effective_from, reviewed_by, reviewed_at)
  values ('x', 'm', '2026-01-15T00:00:00Z', 'eve', now())
$$, '23P01', null, 'two that are in force at once cannot be written');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
