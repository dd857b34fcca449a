begin;
select plan(5);
call budget_test.tree();
select budget.set_budget('o', 'project', 'p', 10, 'day', '{"models": ["t-mini", "t-pro"]}');
prepare try(numeric, jsonb) as select budget.set_budget('o', 'unit', 'a', $1, 'day', $2);
select throws_ok($$execute try(11, '{"models": ["t-mini"]}')$$, 'LB109');
select throws_ok($$execute try(11, '{"models": ["t-pro", "t-mini"]}')$$, 'LB109');
select lives_ok($$execute try(11, '{"models": ["t-mini", "c-son"]}')$$, 'another model: another sum of money');
select lives_ok($$execute try(11, '{"models": null}')$$);
-- One for all models stands over all.
select throws_ok($$select budget.set_budget('o', 'project', 'p', 10, 'day', '{"name": "all"}')$$, 'LB109');
select * from finish();
rollback;
