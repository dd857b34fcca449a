begin;
select plan(14);
select budget_test.at('2026-11-30T12:00:00Z');
select budget.set_model('x', 'm', null, null);
select budget.set_route(null, 'mm', 'x', 'main', 'm');
create function pg_temp.add(p_from text) returns bigint
language sql
as $$
  select budget.add_price('x', 'm', '[{"kind": "input", "usd": 1}, {"kind": "output", "usd": 1}]', p_from::timestamptz)
$$;
select throws_ok($$select budget.withdraw_price('x', 'm')$$, 'LB101', null, 'there is nothing to end');
select budget.review_price(pg_temp.add('2026-01-01T00:00:00Z'), 'ann');
select throws_ok($$select budget.withdraw_price('x', 'm', '2025-01-01T00:00:00Z')$$, 'LB101', null, 'not before it begins');
select throws_ok($$select budget.withdraw_price('x', 'nobody')$$, 'LB101');
select budget_test.key(1) as key \gset
select reservation_id from budget.reserve(:'key', 'mm', 100, 200) \gset
select isnt(:'reservation_id'::text, '', 'a call runs');
select budget.withdraw_price('x', 'm', '2026-12-01T00:00:00Z');
select throws_ok($$select budget.withdraw_price('x', 'm')$$, 'LB101', null, 'it has its end');
select is(budget.quote('x', 'm', '{"input": 1}', '2026-11-30T23:59:59Z'), 1000::bigint, 'until then it is priced');
select throws_ok($$select budget.quote('x', 'm', '{"input": 1}', '2026-12-01T00:00:00Z')$$, 'LB103');
select budget_test.at('2026-12-01T00:00:00Z');
select is((select code from budget.reserve(:'key', 'mm', 100, 200)), 'model_unpriced', 'nothing new is admitted');
select is((select charged_nano_usd from budget.settle(:'reservation_id', '{"input": 100, "output": 20}')), 120000::bigint,
  'what was admitted before is charged as it was admitted');
-- A version from within what was withdrawn ends with it.
select budget.review_price(pg_temp.add('2026-06-01T00:00:00Z'), 'ann');
select throws_ok($$select budget.quote('x', 'm', '{"input": 1}', '2026-12-01T00:00:00Z')$$, 'LB103');
select is(budget.quote('x', 'm', '{"input": 1}', '2026-07-01T00:00:00Z'), 1000::bigint);
-- A later one brings the model back.
select budget.review_price(pg_temp.add('2027-01-01T00:00:00Z'), 'ann');
select throws_ok($$select budget.quote('x', 'm', '{"input": 1}', '2026-12-31T00:00:00Z')$$, 'LB103');
select is(budget.quote('x', 'm', '{"input": 1}', '2027-01-01T00:00:00Z'), 1000::bigint);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
