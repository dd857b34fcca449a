begin;
select plan(20);
select budget_test.key(1, '{"run_ceiling_usd": "0.0100"}') as k \gset
create function budget_test.start(p_key text, p_run text, p_options jsonb default '{}') returns text language sql as $$
  select concat_ws(' ', coalesce(code, status), ceiling_nano_usd / 1000, spent_nano_usd / 1000, held_nano_usd / 1000, available_nano_usd / 1000)
  from budget.start_run(p_key, p_run, p_options)
$$;
create function budget_test.call(p_key text, p_run text, p_input bigint) returns text language sql as $$
  select concat_ws(' ', coalesce(code, status), scope_name) from budget.reserve(p_key, 't-mini', p_input, 0, p_run, jsonb_build_object('run', jsonb_build_object('id', p_run)))
$$;
create function budget_test.end_call(p_run text, p_input bigint) returns bigint language sql as $$
  select charged_nano_usd / 1000 from budget.settle(
    (select reservation_id from budget_internal.reservations where request_id = p_run), jsonb_build_object('input', p_input))
$$;
select is(budget_test.start(:'k', 'top', '{"ceiling_usd": "0.0100"}'), 'started 10000 0 0 10000');
select is(budget_test.start(:'k', 'top', '{"ceiling_usd": "0.0050"}'), 'running 10000 0 0 10000', 'it is there already');
select is(budget_test.start(:'k', 'child', '{"ceiling_usd": "0.0060", "parent_run": "top"}'), 'started 6000 0 0 6000');
select is(budget_test.start(:'k', 'top'), 'running 10000 0 6000 4000', 'set aside');
select is(budget_test.start(:'k', 'second', '{"ceiling_usd": "0.0041", "parent_run": "top"}'), 'budget_busy 4100', 'more than is left; the rest is held');
select is(budget_test.call(:'k', 'top', 4001), 'budget_busy top');
-- A child's call is held on the child, whose ceiling the parent holds already.
select is(budget_test.call(:'k', 'child', 2000), 'granted');
select is(budget_test.start(:'k', 'child') || ', ' || budget_test.start(:'k', 'top'), 'running 6000 0 2000 4000, running 10000 0 6000 4000');
-- What it spends is spent by the parent, which sets aside only what the child has left.
select is(budget_test.end_call('child', 1500), 1500::bigint);
select is(budget_test.start(:'k', 'child') || ', ' || budget_test.start(:'k', 'top'), 'running 6000 1500 0 4500, running 10000 1500 4500 4000');
-- A grandchild: 3,000 of the child's 4,500; its spend moves up to both.
select is(budget_test.start(:'k', 'grandchild', '{"ceiling_usd": "0.0030", "parent_run": "child"}'), 'started 3000 0 0 3000');
select is((select status from budget.reserve(:'k', 't-mini', 1000, 0, 'g', '{"run": {"id": "grandchild"}}')), 'granted');
select is(budget_test.end_call('g', 1000), 1000::bigint);
select is(budget_test.start(:'k', 'grandchild') || ', ' || budget_test.start(:'k', 'child') || ', ' || budget_test.start(:'k', 'top'),
  'running 3000 1000 0 2000, running 6000 2500 2000 1500, running 10000 2500 3500 4000');
-- An overrun of the child is the parent's too: 1,500 held, 2,000 real.
select is((select status from budget.reserve(:'k', 't-mini', 1500, 0, 'o', '{"run": {"id": "child"}}')), 'granted');
select is(budget_test.end_call('o', 2000), 2000::bigint);
select is(budget_test.start(:'k', 'child') || ', ' || budget_test.start(:'k', 'top'), 'running 6000 4500 2000 -500, running 10000 4500 2000 3500');
select is(budget_test.start(:'k', 'third', '{"ceiling_usd": "0.0056", "parent_run": "top"}'), 'budget_exceeded 5600', 'more than the parent has not spent');
select is(budget_test.start(:'k', 'third', '{"ceiling_usd": "0.0035", "parent_run": "top"}'), 'started 3500 0 0 3500', 'to the last');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
