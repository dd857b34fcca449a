begin;
select plan(4);
select budget_test.key(1) as k \gset
create function pg_temp.ended(p_key text, p_more jsonb) returns text
language sql
as $$
  select s.status || ' ' || s.source || ' ' || s.charged_nano_usd || ' ' || s.flags::text
  from budget.settle_batch(jsonb_build_array(jsonb_build_object(
    'reservation_id', (budget.reserve(p_key, 't-mini', 100, 200)).reservation_id,
    'outcome', 'finished', 'usage', '{"input": 100, "output": 10}'::jsonb
  ) || p_more)) s
$$;
select results_eq(
  format($$ select pg_temp.ended(%L, m) from unnest(array[
    '{"clamped": true}', '{}', '{"clamped": false}', '{"clamped": null}', '{"clamped": "true"}', '{"clamped": 1}'
  ]::jsonb[]) m $$, :'k'),
  $$ values ('settled usage 140000 {usage_clamped}'), ('settled usage 140000 {}'), ('settled usage 140000 {}'),
    ('settled usage 140000 {}'), ('settled usage 140000 {}'), ('settled usage 140000 {}') $$
);
select is(
  pg_temp.ended(:'k', '{"outcome": "estimated", "clamped": true}'), 'settled bound 140000 {estimated,usage_clamped}'
);

-- A report that trues a charge up says so of itself; what was charged before does not.
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as r \gset
select budget.settle(:'r', null, 'unknown');
select is((
  select status || charged_nano_usd || flags::text
  from budget.settle_batch(jsonb_build_array(jsonb_build_object(
    'reservation_id', :'r', 'outcome', 'finished', 'usage', '{"input": 100, "output": 10}'::jsonb, 'clamped', true
  )))
), 'trued_up140000{late,usage_clamped}');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
