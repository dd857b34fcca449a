begin;
select plan(24);
-- c-son holds 100 x 3 + 200 x 15 = 3,300; t-mini 100 x 1 + 200 x 4 = 900: the plan holds 3,300.
select budget_test.key(0.01) as k \gset
select budget.set_routes('o', 'm', '[{"provider": "simulator", "account": "simulator", "upstream_model": "c-son", "priority": 1},
  {"provider": "simulator", "account": "simulator", "upstream_model": "t-mini", "priority": 2}]');
create function budget_test.ask(p_key text) returns uuid language sql as $$ select reservation_id from budget.reserve(p_key, 'm', 100, 200) $$;
create function budget_test.go_on(p_id uuid, p_usage jsonb, p_outcome text default null) returns text language sql as $$
  select concat_ws(' ', coalesce(code, status), reserved_nano_usd / 1000, routes -> 0 ->> 'upstream_model')
  from budget.next_attempt(p_id, p_usage, 2, p_outcome)
$$;

select budget_test.ask(:'k') as r \gset
select is(budget_test.go_on(:'r', null), 'granted 900 t-mini', 'nothing can have been spent: the next route is held');
select results_eq('select * from budget_test.counters()', 'values (0::bigint, 900::bigint)');
select is_empty('select 1 from budget.ledger', 'and nothing is booked');
select is(budget_test.go_on(:'r', null), 'granted 900 t-mini', 'again: the same grant');
select is(budget_test.go_on(:'r', '{"output": 200}'), 'granted 900 t-mini', 'nothing is charged twice');
select is((select status || ' ' || charged_nano_usd / 1000 from budget.settle(:'r', '{"input": 90, "output": 100}')), 'settled 490', 'at the price of the route that answered');
select is(budget_test.go_on(:'r', null), 'reservation_ended', 'an ended call does not go on');

-- A leg that was seen in part: 90 x 3 + 10 x 15 = 420.
select budget_test.ask(:'k') as r \gset
select is(budget_test.go_on(:'r', '{"input": 90, "output": 10}'), 'granted 900 t-mini');
select results_eq('select * from budget_test.counters()', 'values (910::bigint, 900::bigint)', '490 + 420 spent');
select results_eq($$select kind::text, amount_usd, source, flags from budget.ledger where kind = 'leg'$$, $$values ('leg', 0.00042, 'bound', '{estimated}'::text[])$$);
select is((select status || ' ' || charged_nano_usd / 1000 from budget.settle(:'r', '{"input": 90, "output": 100}')), 'settled 490');
select is((select state || ' ' || charged_usd from budget.reservation_status where reservation_id = :'r'), 'settled 0.00091', 'its legs count in what it cost');

-- A leg of which nothing is known costs the whole hold.
select budget_test.ask(:'k') as r \gset
select is(budget_test.go_on(:'r', null, 'unknown'), 'granted 900 t-mini');
select results_eq('select * from budget_test.counters()', 'values (4700::bigint, 900::bigint)', '910 + 490 + 3,300 spent');
select is((select charged from budget.reconcile()), 0, 'a call that goes on is alive');

-- Without room for the next route the call ends with what the leg cost.
select budget_test.ask(:'k') as s \gset
select is((select code from budget.reserve(:'k', 'm', 100, 200)), 'budget_busy');
select budget.set_budget('o', 'key', 'k', 0.0085, 'day');
select is(budget_test.go_on(:'s', null, 'unknown'), 'budget_exceeded');
select is((select state || ' ' || charged_usd from budget.reservation_status where reservation_id = :'s'), 'charged 0.0033');
select results_eq('select * from budget_test.counters()', 'values (8000::bigint, 900::bigint)', 'nothing of it is held');

select budget_test.refused(format($$select budget.next_attempt(%L, null, 3)$$, :'r'), 'route');
select budget_test.refused(format($$select budget.next_attempt(%L, null, null)$$, :'r'), 'route');
select budget_test.refused(format($$select budget.next_attempt(%L, '{"output": 1}', 2, 'released')$$, :'r'), 'usage');
select budget_test.refused(format($$select budget.next_attempt(%L, null, 2, 'lost')$$, :'r'), 'outcome');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
