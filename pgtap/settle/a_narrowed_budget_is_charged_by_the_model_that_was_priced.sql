begin;
select plan(7);
select budget_test.key(1) as k \gset
select budget.set_budget('o', 'project', 'p', 1, 'day', '{"models": ["t-pro"]}');
select budget.set_routes('o', 'either', '[{"provider": "simulator", "account": "simulator", "upstream_model": "t-mini", "priority": 1},
  {"provider": "simulator", "account": "simulator", "upstream_model": "t-pro", "priority": 2}]');
prepare rooms as select s.kind::text, p.spent_nano_usd / 1000, p.held_nano_usd / 1000 from budget_internal.periods p
  join budget_internal.budgets b on b.budget_id = p.budget_id join budget_internal.scopes s on s.scope_id = b.scope_id order by 1;
select (budget.reserve(:'k', 'either', 100, 200)).reservation_id as r \gset
select results_eq('rooms', $$values ('key', 0::bigint, 6500::bigint), ('project', 0, 6500)$$, 'both hold what the plan may cost');
-- The first leg is t-mini: 900 on the key, and the hold of the project goes without a charge.
select is((select charged_nano_usd from budget.settle(:'r', '{"input": 100, "output": 200}')), 900000::bigint);
select results_eq('rooms', $$values ('key', 900::bigint, 0::bigint), ('project', 0, 0)$$);
select (budget.reserve(:'k', 't-pro', 100, 200)).reservation_id as r \gset
select budget.settle(:'r', null, 'unknown');
select results_eq('rooms', $$values ('key', 7400::bigint, 0::bigint), ('project', 6500, 0)$$);
select budget.settle(:'r', '{"input": 100}');
select results_eq('rooms', $$values ('key', 1400::bigint, 0::bigint), ('project', 500, 0)$$, 'a true-up goes where the charge went');
select (budget.reserve(:'k', 'either', 100, 200)).reservation_id as r \gset
select budget.settle(:'r', null, 'unknown');
select budget.settle(:'r', null, 'released');
select results_eq('rooms', $$values ('key', 1400::bigint, 0::bigint), ('project', 500, 0)$$, 'and nowhere else');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
