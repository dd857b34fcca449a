begin;
select plan(12);
select budget_test.key(1) as k \gset
select * from budget.reserve(:'k', 't-mini', 100, 200, 'r', '{"body_hash": "a", "holder": "h"}') \gset first_
select * from budget.reserve(:'k', 't-mini', 100, 200, 'r', '{"body_hash": "a", "holder": "h"}') \gset own_
select is((:'own_status')::text, 'granted', 'a re-send by the same holder just gets its grant');
select is((:'own_reservation_id')::text, :'first_reservation_id');
select * from budget.reserve(:'k', 't-mini', 100, 200, 'r', '{"body_hash": "a", "holder": "i"}') \gset again_
select is((:'again_status' || ' ' || :'again_state')::text, 'granted_again open');
select is((:'again_reservation_id')::text, :'first_reservation_id');
select is((select code from budget.reserve(:'k', 't-mini', 100, 200, 'r', '{"body_hash": "b"}')), 'idempotency_conflict');
select results_eq('select * from budget_test.counters()', 'values (0::bigint, 900::bigint)', 'held once');
select budget.settle(:'first_reservation_id', '{"input": 1, "output": 1}');
select * from budget.reserve(:'k', 't-mini', 100, 200, 'r', '{"body_hash": "a", "holder": "h"}') \gset ended_
select is((:'ended_status' || ' ' || :'ended_state')::text, 'granted_again settled', 'also after it has ended');
select is((:'ended_reservation_id')::text, :'first_reservation_id');
select results_eq(
  format($$select status || coalesce(' ' || code, '') from budget.reserve_batch(jsonb_build_array(
    %1$s || '{"options": {"body_hash": "a"}}', %1$s || '{"options": {"body_hash": "a"}}', %1$s || '{"options": {"body_hash": "b"}}'))$$,
    format($$jsonb_build_object('key', %L, 'model', 't-mini', 'input_tokens', 1, 'max_output_tokens', 1, 'request_id', 's')$$, :'k')),
  $$values ('granted'), ('granted_again'), ('denied idempotency_conflict')$$, 'also within one batch'
);
select is((select count(*)::int from budget_internal.reservations), 1);
select secret as other from budget.create_key('o', 'p', 'k2') \gset
select is((select status from budget.reserve(:'other', 't-mini', 1, 1, 'r')), 'granted', 'ids are of one key');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
