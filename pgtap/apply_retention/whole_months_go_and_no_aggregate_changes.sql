begin;
select plan(23);
select budget_test.at('2031-01-15 12:00:00+00');
call budget_test.tree();
select secret as k from budget.create_key('o', 'p', 'k', '{"unit": "b"}') \gset
select budget.set_budget('o', 'key', 'k', 1, 'total'), budget.set_budget('o', 'unit', 'a', 1, 'year');
select budget.upkeep_step();
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as used \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as lost \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as quarantined \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as gone \gset
select budget.settle(:'used', '{"input": 100, "output": 100}');
select budget.settle(:'lost', null, 'unknown'), budget.settle(:'gone', null, 'unknown');
update budget_internal.reservations set reconciliation_quarantined_at = budget_internal.clock();
-- Trued up in the next month: its correction outlives the charge.
select budget_test.at('2031-02-15 12:00:00+00');
select budget.settle(:'lost', '{"input": 100, "output": 100}');
create temporary table before as
select period_id, spent_nano_usd, held_nano_usd, forgiven_nano_usd from budget_internal.periods
union all
select unit_id, spent_nano_usd, 0, 0 from budget_internal.unit_months;
select is((select count(*)::int from budget_internal.ledger_entries_default), 0, 'every month has its partition');

select is((select dropped_partition from budget.apply_retention()), null, 'without a setting the ledger is kept');
select budget.set_policy(null, '{"ledger_retention_days": 60}');
select budget_test.at('2031-04-01 00:00:00+00');
-- Whatever there is of the months before these.
create procedure budget_test.drop_before(p_name text)
language plpgsql
as $$
begin
  while (select min(partition_name) < p_name from budget_internal.ledger_partitions()) loop
    perform budget.apply_retention();
  end loop;
end
$$;
call budget_test.drop_before('ledger_entries_2031_01');
select budget_test.at('2031-04-01 23:59:59+00');
select is((select entries from budget.apply_retention()), null, 'its last row may be 60 days old, less a second');
select budget_test.at('2031-04-02 00:00:00+00');
select is((select r from budget.apply_retention() r)::text, '(ledger_entries_2031_01,3,f)');
select is((select to_regclass('budget_internal.ledger_entries_2031_01')), null, 'dropped whole');
select is((select count(*)::int from budget.ledger), 1, 'what is newer stays');
select set_eq(
  $$
    select period_id, spent_nano_usd, held_nano_usd, forgiven_nano_usd from budget_internal.periods
    union all select unit_id, spent_nano_usd, 0, 0 from budget_internal.unit_months
  $$,
  'table before', 'no aggregate changes'
);
select results_eq('select distinct retired_nano_usd::bigint from budget_internal.periods', 'values (2300000::bigint)', '500 + 900 + 900');
select results_eq('select distinct retired_nano_usd::bigint from budget_internal.unit_months', 'values (2300000::bigint)', 'of units too');
select is_empty('select * from budget.verify()', 'the books agree');
select is((select count(*)::int from budget.quarantine), 1, 'a quarantined row stays');
select is((select status || ' ' || charged_nano_usd from budget.resolve(:'quarantined', 'charge', '{"output": 25}')), 'settled 100000', 'and can be resolved');
select throws_ok(format('select budget.settle(%L, ''{"output": 1}'')', :'gone'), 'LB301', null, 'what was dropped is not known any more');
select throws_ok(format('select budget.resolve(%L, ''release'')', :'gone'), 'LB301');
select is_empty('select * from budget.verify()');
select results_eq(
  $$select subject, before ->> 'entries' from budget.audit where subject = 'ledger partition ledger_entries_2031_01'$$,
  $$values ('ledger partition ledger_entries_2031_01'::text, '3'::text)$$, 'the audit log says so'
);
select isnt((select count(*)::int from budget.audit), 0);
select results_eq('select dropped_partition, more from budget.apply_retention()', 'values (null::text, false)', 'once');

-- A difference between counters and ledger is still seen.
update budget_internal.periods set retired_nano_usd = retired_nano_usd + 1;
select is((select count(*)::int from budget.verify() where check_name = 'spent_equals_ledger'), 2);
update budget_internal.periods set retired_nano_usd = retired_nano_usd - 1;
update budget_internal.unit_months set retired_nano_usd = retired_nano_usd + 1;
select is((select count(*)::int from budget.verify() where check_name = 'unit_spend_equals_ledger'), 2);
update budget_internal.unit_months set retired_nano_usd = retired_nano_usd - 1;

-- Refusals and rate windows.
insert into budget_internal.refusal_minutes (org_id, scope_id, minute_at, code, refusals)
values (1, 1, '2031-03-03 00:00:00+00', 'new', 1), (1, 1, '2031-03-02 23:59:00+00', 'old', 1);
insert into budget_internal.rate_windows (org_id, scope_id, minute_at)
select s.org_id, s.scope_id, case s.name when 'o' then '2031-03-31 23:59:00+00' else '2031-04-01 00:00:00+00' end::timestamptz
from budget_internal.scopes s where s.kind in ('org', 'project') and s.name in ('o', 'p') and s.org_id <> 0;
select budget.apply_retention();
select results_eq('select code from budget_internal.refusal_minutes', 'values (''new''::text)', 'after 30 days');
select is((select count(*)::int from budget_internal.rate_windows), 1, 'after a day');
select is_empty('select * from budget.verify()');
select * from finish();
rollback;
