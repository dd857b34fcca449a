begin;
select plan(5);
set local application_name = 'psql of ann';
select budget_test.at('2027-01-15T12:00:00Z');
select coalesce(max(audit_id), 0) as seen from budget_internal.audit_entries \gset
select format('select subject, action from budget.audit where audit_id > %s order by audit_id', :seen) as news \gset
call budget_test.tree();
select results_eq(:'news' || ' limit 3', $$values ('org o', 'insert'), ('project p', 'insert'), ('project q', 'insert')$$);
select is((select count(*) from budget.audit where audit_id > :seen and (org, actor, client, changed_at) = ('o', session_user::text, 'psql of ann', timestamptz '2027-01-15T12:00:00Z')), 10::bigint, 'who, through what, when, in which org');
select max(audit_id) as seen from budget_internal.audit_entries \gset
select format('select subject, action from budget.audit where audit_id > %s order by audit_id', :seen) as news \gset
select budget.create_key('o', 'p', 'k', '{"tags": ["t1"]}'), budget.rotate_key('o', 'k', '1 hour'), budget.set_rate_limit('o', 'key', 'k', 5, null),
  budget.set_ladder('o', 'key', 'k', '[{"name": "stop", "refuse": true}]'), budget.set_policy('o', '{"stale_seconds": 50}', 'p'),
  budget.set_budget('o', 'key', 'k', 5, 'day'), budget.set_route('o', 'x', 'prov', 'acct'), budget.set_model('prov', 'x', 1000, 10),
  budget.review_price(budget.add_price('prov', 'x', '[{"kind": "input", "usd": 1}]'), 'ann');
select results_eq(:'news', $$values ('key k', 'insert'), ('key k', 'insert'), ('tag t1 of key k', 'insert'), ('secret of key k', 'insert'),
  ('secret of key k', 'update'), ('secret of key k', 'insert'), ('rate limit of key k', 'insert'), ('rung stop of key k', 'insert'),
  ('policy of project p', 'insert'), ('budget day of key k', 'insert'), ('account acct', 'insert'),
  ('route x', 'insert'), ('model prov/x', 'insert'), ('price prov/x', 'insert'), ('price prov/x', 'update')$$);
select max(audit_id) as seen from budget_internal.audit_entries \gset
select format('select subject, action from budget.audit where audit_id > %s order by audit_id', :seen) as news \gset
select budget_test.at('2027-01-15T12:00:01Z');
select budget.reset_budget('o', 'key', 'k', 'day');
select results_eq(:'news', $$values ('budget day of key k', 'update')$$, 'a reset too');
select max(audit_id) as seen from budget_internal.audit_entries \gset
select format('select subject, action from budget.audit where audit_id > %s order by audit_id', :seen) as news \gset
select budget.delete_scope('o', 'key', 'k');
select bag_eq(:'news', $$values ('key k', 'update'), ('budget day of key k', 'update'), ('rate limit of key k', 'delete'), ('rung stop of key k', 'delete')$$);
select * from finish();
rollback;
