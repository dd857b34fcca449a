begin;
select plan(21);
select budget_test.key(1) as k \gset
create function budget_test.run(p_key text, p_run text) returns text language sql as $$
  select concat_ws(' ', status, ceiling_nano_usd / 1000, spent_nano_usd / 1000, held_nano_usd / 1000, available_nano_usd / 1000) from budget.start_run(p_key, p_run)
$$;
create function budget_test.end_run(p_key text, p_run text) returns text language sql as $$
  select concat_ws(' ', status, spent_nano_usd / 1000, held_nano_usd / 1000, ended_at is not null) from budget.end_run(p_key, p_run)
$$;
create function budget_test.call(p_key text, p_run text, p_request_id text) returns text language sql as $$
  select coalesce(code, status) from budget.reserve(p_key, 't-mini', 900, 0, p_request_id, jsonb_build_object('run', jsonb_build_object('id', p_run)))
$$;
create function budget_test.end_call(p_request_id text, p_usage jsonb) returns text language sql as $$
  select status from budget.settle((select reservation_id from budget_internal.reservations where request_id = p_request_id
    union select reservation_id from budget_internal.ledger_entries where request_id = p_request_id), p_usage, case when p_usage is null then 'unknown' else 'finished' end)
$$;
select budget.start_run(:'k', 'top', '{"ceiling_usd": "0.0090"}'), budget.start_run(:'k', 'child', '{"ceiling_usd": "0.0050", "parent_run": "top"}'),
  budget.start_run(:'k', 'grandchild', '{"ceiling_usd": "0.0020", "parent_run": "child"}');
select budget_test.call(:'k', 'child', 'spent'), budget_test.end_call('spent', '{"input": 400}'), budget_test.call(:'k', 'child', 'open'), budget_test.call(:'k', 'grandchild', 'below');
select is(budget_test.run(:'k', 'child'), 'running 5000 400 2900 1700');
select is(budget_test.run(:'k', 'top'), 'running 9000 400 4600 4000');
-- The end of the child ends the grandchild. What they have left goes back; their open calls keep 900 each.
select is(budget_test.end_run(:'k', 'child'), 'ended 400 1800 t');
select is(budget_test.run(:'k', 'grandchild'), 'ended 2000 0 900 1100');
select is(budget_test.run(:'k', 'top'), 'running 9000 400 1800 6800', '9,000 - 400 spent - 1,800 held by open calls');
select is(budget_test.call(:'k', 'child', 'late'), 'invalid_request');
select is(budget_test.call(:'k', 'grandchild', 'late'), 'invalid_request');
select is((select message from budget.reserve(:'k', 't-mini', 1, 0, null, '{"run": {"id": "child"}}')), 'run "child" has ended; use a new run id');
select is(budget_test.call(:'k', 'top', 'top'), 'granted', 'the parent goes on');
select is(budget_test.run(:'k', 'top'), 'running 9000 400 2700 5900');
select budget_test.refused(format('select budget.start_run(%L, %L, %L)', :'k', 'new', '{"parent_run": "child", "ceiling_usd": 0}'), 'has ended');
-- Open calls of an ended run settle as usual, in it and in its parents.
select is(budget_test.end_call('open', null), 'charged');
select is(budget_test.run(:'k', 'top'), 'running 9000 1300 1800 5900', 'the whole hold is spent');
select is(budget_test.end_call('open', '{"input": 100}'), 'trued_up');
select is(budget_test.end_call('below', '{"input": 50}'), 'settled');
select is(budget_test.run(:'k', 'child'), 'ended 5000 550 0 4450');
select is(budget_test.run(:'k', 'top'), 'running 9000 550 900 7550', '400 + 100 + 50');
-- Ended once: a repeat tells it again.
select is(budget_test.end_run(:'k', 'child'), 'ended 550 0 t');
select is(budget_test.end_run(:'k', 'top'), 'ended 550 900 t');
select budget_test.refused(format('select budget.end_run(%L, %L)', :'k', 'nothing'), '"nothing"');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
