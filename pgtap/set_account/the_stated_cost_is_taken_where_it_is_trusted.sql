begin;
select plan(23);
select budget_test.key(1) as k \gset
create function budget_test.hold(p_key text, p_model text default 't-mini') returns uuid language sql as $$
  select reservation_id from budget.reserve(p_key, p_model, 1000, 200)
$$;
create function budget_test.end_it(p_id uuid, p_usage jsonb, p_outcome text, p_usd numeric) returns text language sql as $$
  select concat_ws(' ', status, source, charged_nano_usd, case when overrun then 'overrun' end, nullif(array_to_string(flags, ' '), '')) from budget.settle(p_id, p_usage, p_outcome, p_usd)
$$;
-- A hold of 1,000 + 800 micro-dollars; the usage costs 100 + 200.
select budget_test.hold(:'k') as r \gset
select is(budget_test.end_it(:'r', '{"input": 100, "output": 50}', 'finished', 0.00012345678), 'settled usage 300000', 'nobody is trusted unless it is said');
select is((select provider_cost_usd from budget_internal.ledger_entries where reservation_id = :'r'), 0.00012345678, 'but it is written down');

select budget.set_account('simulator', true);
select budget_test.hold(:'k') as r \gset
select is(budget_test.end_it(:'r', '{"input": 100, "output": 50}', 'finished', 0.00012345678), 'settled provider_cost 123457', 'to the nano-dollar, upward');
select is(budget_test.end_it(:'r', '{"input": 100, "output": 50}', 'finished', 0.00012345678), 'repeated provider_cost 123457');
select results_eq('select * from budget_test.counters()', 'values (423::bigint, 0::bigint)', '300 + 123.457 are spent');
select is((select concat_ws(' ', source, amount_nano_usd, usage ->> 'input', provider_cost_usd) from budget_internal.ledger_entries where reservation_id = :'r'),
  'provider_cost 123457 100 0.00012345678', 'the ledger says which');
select is(budget_test.end_it(budget_test.hold(:'k'), null, 'finished', 0.0003), 'settled provider_cost 300000', 'no usage is needed');
select is(budget_test.end_it(budget_test.hold(:'k'), '{"input": 100, "output": 50}', 'finished', 0), 'settled provider_cost 0', 'nothing was charged for it');
select is(budget_test.end_it(budget_test.hold(:'k'), '{"input": 100}', 'finished', 0.002), 'settled provider_cost 2000000 overrun', 'in full');
select is(budget_test.end_it(budget_test.hold(:'k'), '{"input": 100, "output": 50}', 'finished', null), 'settled usage 300000', 'none is stated');
select is(budget_test.end_it(budget_test.hold(:'k'), '{"input": 100, "output": 50}', 'estimated', 0.00012), 'settled bound 300000 estimated', 'only of a call that has finished');
select is(budget_test.end_it(budget_test.hold(:'k'), null, 'unsent', 0.00012), 'released none 0', 'what was not sent costs nothing');
-- What cannot be: more than 1,000,000 USD for a call.
select is(budget_test.end_it(budget_test.hold(:'k'), '{"input": 100}', 'finished', 1000000.000000001), 'charged hold 1800000 provisional usage_rejected');
select throws_ok(format('select budget.settle(%L, null, ''finished'', -1)', budget_test.hold(:'k')), 'LB101');
select throws_ok(format('select budget.settle(%L, null, ''finished'', ''NaN'')', budget_test.hold(:'k')), 'LB101');

-- A charge as unknown is trued up by it.
select budget_test.hold(:'k') as r \gset
select is(budget_test.end_it(:'r', null, 'unknown', 0.0001), 'charged hold 1800000 provisional');
select is(budget_test.end_it(:'r', '{"input": 100, "output": 50}', 'finished', 0.0001), 'trued_up provider_cost 100000 late');

-- Each account for itself.
select budget.set_routes('o', 'm', '[{"provider": "simulator", "account": "other", "upstream_model": "t-mini"}]');
select is(budget_test.end_it(budget_test.hold(:'k', 'm'), '{"input": 100, "output": 50}', 'finished', 0.0001), 'settled usage 300000');
select budget.set_account('other', true), budget.set_account('simulator', false);
select is(budget_test.end_it(budget_test.hold(:'k', 'm'), '{"input": 100, "output": 50}', 'finished', 0.0001), 'settled provider_cost 100000');
select is(budget_test.end_it(budget_test.hold(:'k'), '{"input": 100, "output": 50}', 'finished', 0.0001), 'settled usage 300000', 'no more');

select budget_test.refused($$select budget.set_account('nobody', true)$$, 'nobody');
select budget_test.refused($$select budget.set_account('other', null)$$, 'trusts_stated_cost');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
