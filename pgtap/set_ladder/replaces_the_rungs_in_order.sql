begin;
select plan(3);
select budget_test.key() as k \gset
prepare ladder as
  select s.kind || ' ' || s.name, r.place, r.name, r.action, r.model, r.max_output_tokens, r.features_off, r.wait_seconds
  from budget_internal.rungs r join budget_internal.scopes s on s.scope_id = r.scope_id order by 1, 2;
select budget.set_ladder('o', 'key', 'k', '[
  {"name": "cheaper", "model": "t-mini", "max_output_tokens": 500}, {"name": "plain", "features_off": ["web_search", "file_search"]},
  {"name": "wait", "wait_seconds": 5}, {"name": "stop", "refuse": true}
]');
select results_eq('ladder', $$values
  ('key k', 1, 'cheaper', 'grant', 't-mini', 500::bigint, '{}'::text[], null::integer),
  ('key k', 2, 'plain', 'grant', null, null, '{web_search,file_search}', null),
  ('key k', 3, 'wait', 'wait', null, null, '{}', 5), ('key k', 4, 'stop', 'refuse', null, null, '{}', null)$$);
select budget.set_ladder('o', 'key', 'k', '[{"name": "stop", "wait_seconds": 3600, "model": null}]'), budget.set_ladder('o', 'org', 'o', '[{"name": "x", "model": "t"}]'),
  budget.set_ladder('o', 'project', 'p', '[{"name": "x", "model": "t"}]');
select results_eq('ladder', $$values
  ('key k', 1, 'stop', 'wait', null, null::bigint, '{}'::text[], 3600),
  ('org o', 1, 'x', 'grant', 't', null, '{}', null), ('project p', 1, 'x', 'grant', 't', null, '{}', null)$$);
select budget.set_ladder('o', 'key', 'k', '[]'), budget.set_ladder(null, 'org', 'o', '[]'), budget.set_ladder('o', 'project', 'p', '[]');
select is_empty('ladder', 'an empty array removes it');
select * from finish();
rollback;
