begin;
select plan(9);
call budget_test.tree();
select budget_test.at('2027-01-31 23:59:00+00');
select secret as k from budget.create_key('o', 'p', 'k', '{"unit": "c"}') \gset
prepare months as select s.name, to_char(u.month_on, 'MM'), u.spent_nano_usd / 1000
  from budget_internal.unit_months u join budget_internal.scopes s on s.scope_id = u.unit_id order by 1, 2;
-- Without any budget: nothing is held, all units above the key count.
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as january \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as unknown \gset
select is_empty('months');
select budget_test.at('2027-02-01 00:01:00+00');
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as running \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as dropped \gset
select budget.move_key('o', 'k', '{"unit": "z"}');
select budget.settle(:'january', '{"input": 100, "output": 200}'), budget.settle(:'unknown', null, 'unknown'), budget.release(:'dropped');
select results_eq('months', $$values ('a', '01', 1800::bigint), ('b', '01', 1800), ('c', '01', 1800)$$, 'the month of the call, not of its end');
select budget.settle(:'running', '{"output": 10}');
select results_eq('months', $$values ('a', '01', 1800::bigint), ('a', '02', 40), ('b', '01', 1800), ('b', '02', 40), ('c', '01', 1800), ('c', '02', 40)$$,
  'the units it was admitted under, wherever its key is now');
select budget.settle((budget.reserve(:'k', 't-mini', 100, 200)).reservation_id, '{"output": 1}');
select budget.move_scope('o', 'unit', 'c', 'unit', 'z');
select budget.settle(:'unknown', '{"output": 1}');
select results_eq('months', $$values ('a', '01', 904::bigint), ('a', '02', 40), ('b', '01', 904), ('b', '02', 40), ('c', '01', 904), ('c', '02', 40), ('z', '02', 4)$$,
  'moves move nothing that is spent, and a true-up goes where its charge went');
select is((select count(*) from budget_internal.periods), 0::bigint);
-- Every attempt to end it again changes nothing.
select budget.settle(:'unknown', '{"output": 1}'), budget.settle(:'january', '{"input": 100, "output": 200}');
select results_eq('months', $$values ('a', '01', 904::bigint), ('a', '02', 40), ('b', '01', 904), ('b', '02', 40), ('c', '01', 904), ('c', '02', 40), ('z', '02', 4)$$);
-- A late report above the charge, and one of nothing.
select (budget.reserve(:'k', 't-mini', 1, 0)).reservation_id as above \gset
select budget.settle(:'above', null, 'unknown'), budget.settle(:'above', '{"input": 500}');
select results_eq('months', $$values ('a', '01', 904::bigint), ('a', '02', 40), ('b', '01', 904), ('b', '02', 40), ('c', '01', 904), ('c', '02', 40), ('z', '02', 504)$$);
select (budget.reserve(:'k', 't-mini', 1, 0)).reservation_id as nothing \gset
select budget.settle(:'nothing', null, 'unknown'), budget.settle(:'nothing', null, 'released');
select results_eq('months', $$values ('a', '01', 904::bigint), ('a', '02', 40), ('b', '01', 904), ('b', '02', 40), ('c', '01', 904), ('c', '02', 40), ('z', '02', 504)$$);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
