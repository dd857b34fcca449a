begin;
select plan(21);
select budget_test.at('2031-01-15 23:59:00+00');
select budget_test.key(10) as k \gset
select budget.upkeep_step();
select a.name as account from budget_internal.scopes a join budget_internal.routes r on r.account_id = a.scope_id where r.model = 't-mini' limit 1 \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as used \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as late \gset
-- Admitted on the 15th, booked on the 16th: of the 15th, and so is its correction.
select budget_test.at('2031-01-16 00:02:00+00');
select budget.settle(:'used', '{"input": 100, "output": 100}'), budget.settle(:'late', null, 'unknown');
select is(budget.import_provider_costs(:'account', '[{"day": "2031-01-15", "cost_usd": "0.001"}]', 'console'), 1);
select results_eq(
  'select account, day, ledger_usd, provider_usd, difference_usd, difference_percent, over_tolerance from budget.drift',
  format('values (%L::text, ''2031-01-15''::date, 0.0014, 0.001, -0.0004, -40.00, true)', :'account'), '500 + 900 against 1,000'
);
select results_eq(
  'select kind, cause, payload ->> ''difference_percent'' from budget_internal.alerts',
  format('values (''drift''::text, %L::text, ''-40.00''::text)', :'account' || '/2031-01-15')
);
select budget.settle(:'late', '{"input": 100, "output": 100}');
select results_eq('select ledger_usd, over_tolerance from budget.drift', 'values (0.001, false)');
select is(budget.import_provider_costs(:'account', '[{"day": "2031-01-15", "cost_usd": 0.00100}]', 'console'), 0, 'the same again changes nothing');
select is((select count(*)::int from budget.audit where subject like 'provider cost%'), 0);
select is(budget.import_provider_costs(:'account', '[{"day": "2031-01-15", "cost_usd": "0.0010204"}]', 'api'), 1, 'a later one replaces it');
select results_eq(
  $$select subject, before ->> 'cost_nano_usd', after ->> 'cost_nano_usd' from budget.audit where subject like 'provider cost%'$$,
  format($$values (%L::text, '1000000'::text, '1020400'::text)$$, 'provider cost of account ' || :'account' || ' on 2031-01-15'), 'and that is audited'
);
select is((select over_tolerance from budget.drift), false, '1.999 of 2 percent');
select budget.import_provider_costs(:'account', '[{"day": "2031-01-15", "cost_usd": "0.001020409"}]', 'api');
select is((select over_tolerance from budget.drift), true, '2.0001 percent');
select budget.set_policy(null, '{"drift_tolerance_percent": 0}');
select budget.import_provider_costs(:'account', '[{"day": "2031-01-15", "cost_usd": "0.001"}]', 'api');
select is((select over_tolerance from budget.drift), false, 'equal');
select is((select count(*)::int from budget_internal.alerts), 1, 'a day is told once');
-- By model, with several lines of one, and the whole day beside them.
select is(budget.import_provider_costs(:'account', '[
  {"day": "2031-01-16", "model": "a", "cost_usd": "0.0000000004"}, {"day": "2031-01-16", "model": "a", "cost_usd": "0.0000000004"},
  {"day": "2031-01-16", "model": "b", "cost_usd": "2"}]', 'csv'), 2);
select is((select provider_usd from budget.drift where day = '2031-01-16'), 2.000000001, 'added up, then rounded');
select is((select count(*)::int from budget_internal.alerts), 1, 'not of a day that is not over');
select budget_test.at('2031-01-17 00:00:00+00');
select budget.upkeep_step();
select is((select count(*)::int from budget_internal.alerts), 2, 'but by the upkeep of the next');
select budget.import_provider_costs(:'account', '[{"day": "2031-01-16", "cost_usd": "0"}]', 'csv');
select results_eq('select provider_usd, difference_percent, over_tolerance from budget.drift where day = ''2031-01-16''', 'values (0::numeric, null::numeric, false)', 'the whole day stands for its models');
select budget.import_provider_costs(:'account', '[{"day": "2001-01-16", "cost_usd": "1"}]', 'csv');
select results_eq('select ledger_usd, over_tolerance from budget.drift where day = ''2001-01-16''', 'values (null::numeric, null::boolean)', 'of before the ledger began nothing is compared');
select budget_test.refused($$select budget.import_provider_costs('nobody', '[]', 'x')$$, 'nobody');
select budget_test.refused(format($$select budget.import_provider_costs(%L, '[{"day": "2031-02-29", "cost_usd": 1}]', 'x')$$, :'account'), 'cost 1 day');
select budget_test.refused(format($$select budget.import_provider_costs(%L, '[{"day": "2031-02-28", "cost_usd": 1}, {"day": "2031-02-28", "cost_usd": -1}]', 'x')$$, :'account'), 'cost 2 cost_usd');
select * from finish();
rollback;
