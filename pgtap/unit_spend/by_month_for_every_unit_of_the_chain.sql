begin;
select plan(6);
select budget_test.at('2026-10-31 12:00:00+00');
call budget_test.tree();
select secret as k from budget.create_key('o', 'p', 'k', '{"unit": "c"}') \gset
select secret as z from budget.create_key('o', 'p', 'kz', '{"unit": "z"}') \gset
select budget.settle((budget.reserve(:'k', 't-mini', 1000, 0)).reservation_id, '{"input": 1000}');
select budget_test.at('2026-11-30 12:00:00+00');
select budget.settle((budget.reserve(:'z', 't-mini', 2000, 0)).reservation_id, '{"input": 2000}');
select results_eq(
  'select org, unit, month, spent_usd from budget.unit_spend order by unit, month',
  $$values
    ('o', 'a', date '2026-10-01', 0.001), ('o', 'a', '2026-11-01', 0), ('o', 'a/b', '2026-10-01', 0.001), ('o', 'a/b', '2026-11-01', 0),
    ('o', 'a/b/c', '2026-10-01', 0.001), ('o', 'a/b/c', '2026-11-01', 0), ('o', 'z', '2026-11-01', 0.002)
  $$
);
-- Moving moves no past spend; the path is that of today.
select budget.move_scope('o', 'unit', 'c', 'unit', 'z');
select budget.settle((budget.reserve(:'k', 't-mini', 4000, 0)).reservation_id, '{"input": 4000}');
select results_eq(
  $$select unit, spent_usd from budget.unit_spend where month = '2026-11-01' order by unit$$,
  $$values ('a', 0), ('a/b', 0), ('z', 0.006), ('z/c', 0.004)$$
);
select is((select sum(spent_usd) from budget.unit_spend where month = '2026-10-01'), 0.003);
-- A unit that is gone keeps its months, and has no new ones.
select budget.delete_scope('o', 'unit', 'b');
select results_eq(
  $$select unit, month, spent_usd from budget.unit_spend where unit_name = 'b'$$, $$values ('a/b', date '2026-10-01', 0.001)$$
);
set local role budget_reader;
select is((select count(*)::int from budget.unit_spend), 6, 'readers may look');
reset role;
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
