begin;
select plan(14);
select budget_test.at('2027-01-15T12:00:00Z'), budget_test.key() as k \gset
create function pg_temp.spend(p_key text, p_micro integer) returns text
language sql
as $$
  select s.status from budget.reserve(p_key, 't-mini', 0, p_micro / 4) r
  cross join lateral budget.settle(r.reservation_id, jsonb_build_object('output', p_micro / 4)) s
$$;
create function pg_temp.told(p_budget text) returns text
language sql
as $$ select coalesce(string_agg(c.threshold_percent::text, ' ' order by c.threshold_percent), '') from budget.crossing c where c.budget_name = p_budget $$;
select budget.set_alert_destinations('{slack,smtp}');
select budget.set_budget('o', 'key', 'k', null, 'day', '{"name": "none"}');
select budget.set_budget('o', 'key', 'k', 0, 'day', '{"name": "zero", "enforcement": "soft"}');
select budget.set_budget('o', 'key', 'k', 0.001, 'day', '{"name": "quiet", "thresholds": []}');
select budget.set_budget('o', 'key', 'k', 0.001, 'day', '{"name": "gone", "thresholds": [1]}');
select budget.set_budget('o', 'key', 'k', 0.001, 'day', '{"name": "check", "enforcement": "check", "thresholds": [90]}');
select budget.set_budget('o', 'key', 'k', 0.001, 'day', '{"name": "far", "enforcement": "soft", "thresholds": [91, 1000]}');
select budget.set_budget('o', 'key', 'k', 0.001, 'day', '{"name": "other", "models": ["t-pro"], "thresholds": [1]}');
select (budget.check_alerts()).crossings;
select is((select count(*) from budget.crossing), 0::bigint, 'nothing is spent, of 0 neither');
select reservation_id as r from budget.reserve(:'k', 't-mini', 0, 225) \gset
select budget.delete_budget('o', 'key', 'k', 'gone');
select (budget.settle(:'r', '{"output": 225}')).status;
select is(pg_temp.told('none'), '', 'no limit, no share of it');
select is(pg_temp.told('zero'), '80 100', 'the first that is spent is all of nothing, and more');
select is(pg_temp.told('quiet'), '');
select is(pg_temp.told('gone'), '', 'a deleted budget');
select is(pg_temp.told('check'), '90', 'exactly at it');
select is(pg_temp.told('far'), '', 'just below it');
select is(pg_temp.told('other'), '', 'a budget for other models');
select set_eq(
  'select destination, payload ->> ''budget'' as budget, payload ->> ''percent'' as percent from budget.alert_outbox',
  $$values ('slack', 'check', '90.0'), ('slack', 'zero', null), ('smtp', 'zero', null)$$, 'e-mail is for soft budgets'
);
select budget.set_budget('o', 'key', 'k', 0.001, 'day', '{"name": "quiet"}');
select is((select thresholds from budget_internal.budgets where name = 'quiet'), '{}'::smallint[], 'what is not named stays');
select budget.set_budget('o', 'key', 'k', 0.001, 'day', '{"name": "quiet", "thresholds": null}');
select is((select thresholds from budget_internal.budgets where name = 'quiet'), '{80,100}'::smallint[], 'null: the default');
select is((budget.check_alerts()).crossings, 1, 'which is reached already');

select (budget.start_run(:'k', 'r', '{"ceiling_usd": 0.0001}')).status as status \gset
select is(
  (select b.thresholds from budget_internal.budgets b where b.name = 'run'), '{}'::smallint[], 'runs tell nothing'
);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
