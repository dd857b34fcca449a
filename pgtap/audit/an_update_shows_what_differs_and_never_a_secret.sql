begin;
select plan(7);
select budget_test.at('2027-01-15T12:00:00Z');
call budget_test.tree();
select secret as k from budget.create_key('o', 'p', 'k', '{"max_output_tokens": 5, "unit": "c"}') \gset
select scope_id as id from budget_internal.scopes where kind = 'key' and name = 'k' \gset
select max(audit_id) as seen from budget_internal.audit_entries \gset
select budget.set_key('o', 'k', '{"max_output_tokens": null, "request_ceiling_usd": 1}');
select is((select before from budget.audit where audit_id > :seen), jsonb_build_object('key_id', :id, 'max_output_tokens', 5, 'request_ceiling_nano_usd', null));
select is((select after from budget.audit where audit_id > :seen), jsonb_build_object('key_id', :id, 'max_output_tokens', null, 'request_ceiling_nano_usd', 1000000000));
select max(audit_id) as seen from budget_internal.audit_entries \gset
select budget.set_key('o', 'k', '{"max_output_tokens": null}'), budget.rename_scope('o', 'key', 'k', 'k'), budget.move_key('o', 'k', '{}');
select is_empty(format('select * from budget.audit where audit_id > %s', :seen), 'what changes nothing is no change');
select budget.move_scope('o', 'unit', 'b', 'unit', 'z');
select results_eq(format('select subject from budget.audit where audit_id > %s', :seen), $$values ('unit b')$$, 'chains of keys follow from the tree');
select max(audit_id) as seen from budget_internal.audit_entries \gset
select budget.rename_scope('o', 'key', 'k', 'kk');
select is((select before ->> 'name' || ' ' || (after ->> 'name') || ' ' || subject from budget.audit where audit_id > :seen), 'k kk key kk');
select budget.rotate_key('o', 'kk', '1 hour') as k2 \gset
select is((select array_agg(distinct m order by m) from budget.audit a, jsonb_object_keys(a.after) m where a.subject like 'secret of%'),
  '{expires_at,key_id,last_four}'::text[]);
select is((select count(*) from budget.audit a where a::text like '%' || encode(sha256(convert_to(:'k2', 'UTF8')), 'hex') || '%' or a::text like '%' || :'k2' || '%'), 0::bigint);
select * from finish();
rollback;
