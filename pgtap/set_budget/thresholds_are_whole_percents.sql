begin;
select plan(10);
select budget_test.at('2027-01-15T12:00:00Z'), budget_test.key() as k \gset
select budget_test.refused(
  format($$select budget.set_budget('o', 'key', 'k', 1, 'day', '{"thresholds": %s}')$$, t.v), 'thresholds'
)
from (values ('80'), ('[0]'), ('[1001]'), ('[80.5]'), ('["80"]'), ('[null]'), ('[1e30]'), ('{}')) t (v);
select budget_test.refused(
  $$select budget.set_budget('o', 'key', 'k', 1, 'day', jsonb_build_object('thresholds', (select jsonb_agg(i) from generate_series(1, 21) i)))$$,
  'thresholds'
);
select budget.set_budget('o', 'key', 'k', 1, 'day', '{"thresholds": [100, 1, 1000, 1, 80.0]}');
select is((select thresholds from budget_internal.budgets), '{1,80,100,1000}'::smallint[], 'sorted, each once');
select * from finish();
rollback;
