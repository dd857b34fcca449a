begin;
select plan(13);
select budget_test.at('2026-11-30 12:00:00+00');
select budget_test.key(1) as k \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as used \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as dropped \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as kept \gset
select budget_test.at('2026-11-30 12:02:00+00');
select is((select charged from budget.reconcile()), 3);
select is((select status || ' ' || charged_nano_usd from budget.resolve(:'used', 'charge', '{"input": 100, "output": 100}', 'from the invoice')), 'trued_up 500000');
select results_eq(
  format($$select kind::text, amount_usd, note ->> 'reason' from budget.ledger where reservation_id = %L order by entry_id desc limit 1$$, :'used'),
  $$values ('trued_up', -0.0004, 'from the invoice')$$
);
select is((select status || ' ' || charged_nano_usd from budget.resolve(:'used', 'charge', '{"input": 100, "output": 100}')), 'repeated 500000');
select throws_ok(format('select budget.settle(%L, ''{"output": 1}'')', :'used'), 'LB302', null, 'a late report after it changes nothing');
select is((select status || ' ' || charged_nano_usd from budget.resolve(:'dropped', 'release', null, 'the provider never saw it')), 'trued_up 0');
select throws_ok(format('select budget.resolve(%L, ''charge'', ''{"output": 1}'')', :'dropped'), 'LB302', null, 'once');
select is((select status || ' ' || charged_nano_usd from budget.resolve(:'kept', 'charge')), 'repeated 900000', 'the whole hold is what it is charged already');
select is((select status || ' ' || charged_nano_usd from budget.settle(:'kept', '{"input": 100, "output": 100}')), 'trued_up 500000', 'and real usage still corrects it');
select throws_ok('select budget.resolve(''00000000-0000-7000-8000-000000000000'', ''charge'')', 'LB301');
select results_eq('select * from budget_test.counters()', 'values (1000::bigint, 0::bigint)');
select is((select count(*)::int from budget.audit where subject like 'reservation %'), 4);
select is_empty('select * from budget.verify()');
select * from finish();
rollback;
