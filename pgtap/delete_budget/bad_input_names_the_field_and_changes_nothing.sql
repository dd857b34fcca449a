begin;
select plan(13);
select budget_test.key(1) as k \gset
prepare gone(text, text, text, text) as select budget.delete_budget($1, $2, $3, $4);
prepare anew(text, text, text, text) as select budget.reset_budget($1, $2, $3, $4);
create temporary table want (org text, kind text, name text, budget text, said text);
insert into want values
('o', 'key', 'k', 'week', 'budget name'),
('o', 'key', 'k', null, 'budget name'),
('o', 'key', 'nobody', 'day', 'nobody'),
('o', 'planet', 'k', 'day', 'kind'),
('o', 'run', 'k', 'day', 'a run has the one budget'),
('x', 'key', 'k', 'day', 'org "x"');
select throws_like(format('execute gone(%L, %L, %L, %L)', w.org, w.kind, w.name, w.budget), '%' || w.said || '%', 'delete: ' || w.said)
from want w;
select throws_like(format('execute anew(%L, %L, %L, %L)', w.org, w.kind, w.name, w.budget), '%' || w.said || '%', 'reset: ' || w.said)
from want w;
select results_eq('select budget_name, limit_usd from budget.budget_status', $$values ('day', 1::numeric)$$, 'nothing has changed');
select * from finish();
rollback;
