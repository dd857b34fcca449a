begin;
select plan(2);
select budget_test.key(1) as k \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as a \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as b \gset
select results_eq(
  format($$select item, coalesce(code, status) from budget.settle_batch(jsonb_build_array(
    jsonb_build_object('reservation_id', %1$L, 'outcome', 'finished', 'usage', '{"input": 1}'::jsonb), 5, '{"reservation_id": "x"}'::jsonb,
    jsonb_build_object('reservation_id', gen_random_uuid(), 'outcome', 'released'),
    jsonb_build_object('reservation_id', %1$L, 'outcome', 'finished', 'usage', '{"input": 1}'::jsonb),
    jsonb_build_object('reservation_id', %1$L, 'outcome', 'finished', 'usage', '{"input": 2}'::jsonb),
    jsonb_build_object('reservation_id', %2$L, 'outcome', 'nonsense'),
    jsonb_build_object('reservation_id', %2$L, 'outcome', 'released')))$$, :'a', :'b'),
  $$values (1, 'settled'), (2, 'invalid_request'), (3, 'invalid_request'), (4, 'unknown_reservation'), (5, 'repeated'),
    (6, 'settlement_conflict'), (7, 'invalid_request'), (8, 'released')$$
);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
