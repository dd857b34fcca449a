begin;
select plan(14);
select budget_test.at('2041-01-31 23:59:00+00');
select budget_test.key(1) as k \gset
create function budget_test.use(p_key text) returns void
language sql
as $$
  select budget.settle((budget.reserve(p_key, 't-mini', 100, 200)).reservation_id, '{"output": 25}') from generate_series(1, 3)
$$;
select budget_test.use(:'k');
select budget_test.at('2041-02-01 00:00:00+00');
select budget_test.use(:'k');
select is((select count(*)::int from budget_internal.ledger_entries_default), 6, 'booked without a partition of its month');
create temporary table before as select * from budget.ledger;
select is(budget.upkeep_step(2), true, 'two rows a step');
select set_eq('select * from budget.ledger', 'table before', 'each is seen once meanwhile');
select is(budget.upkeep_step(2), true);
select is((select count(*)::int from budget_internal.ledger_entries_default), 6, 'copied, not moved, until the last step');
-- Booked meanwhile, with a number from before.
insert into budget_internal.ledger_entries
select (jsonb_populate_record(l, jsonb_build_object('entry_id', 0, 'kind', 'released', 'amount_nano_usd', 0, 'reservation_id', gen_random_uuid()))).*
from budget_internal.ledger_entries l
order by l.entry_id limit 1;
select is(budget.upkeep_step(2), true);
select is(budget.upkeep_step(2), false, 'the last step');
select is((select count(*)::int from budget_internal.ledger_entries_default), 0);
select is((select count(*)::int from budget_internal.ledger_entries_2041_01), 4);
select is((select count(*)::int from budget_internal.ledger_entries_2041_02), 3);
select throws_ok('delete from budget_internal.ledger_entries_2041_01', 'LB911', null, 'as append-only as any other');
select is_empty('select * from budget.verify()', 'the books agree');
select is((select count(*)::int from budget_internal.ledger_partitions() where month_on between '2041-01-01' and '2042-02-01'), 14, 'and a year ahead');
select is((select last_run_at from budget_internal.schedule), '2041-02-01 00:00:00+00'::timestamptz);
select * from finish();
rollback;
