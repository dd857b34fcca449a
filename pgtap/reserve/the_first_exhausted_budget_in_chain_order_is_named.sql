begin;
select plan(4);
select budget_test.any_allocation();
select budget_test.key(0.001) as k \gset
-- Limits that no allocation rule would let in: it is the order that counts here.
select budget.set_budget('o', s.kind, s.name, s.usd, 'total', '{"enforcement": "soft"}')
from (values ('project', 'p', 0.0005), ('org', 'o', 0.0004)) s (kind, name, usd);
update budget_internal.budgets set enforcement = 'strict';
select is((select scope_kind from budget.reserve(:'k', 't-mini', 450, 0)), 'org', 'only the org is too small');
select is((select scope_kind from budget.reserve(:'k', 't-mini', 600, 0)), 'project', 'project before org');
select is((select scope_kind from budget.reserve(:'k', 't-mini', 1100, 0)), 'key', 'key before both');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
