begin;
select plan(15);
select budget_test.at('2026-11-30 12:00:00+00');
select budget_test.key(1) as k \gset
select budget.set_budget('o', 'org', 'o', 100, 'month');
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as lost \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as huge \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as negative \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as gone \gset
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as living \gset
update budget_internal.reservations set reserved_nano_usd = 1000000000000000 where reservation_id = :'huge';
update budget_internal.reservations set reserved_nano_usd = -5 where reservation_id = :'negative';
-- A period that is gone: what it held of these rows went with it.
update budget_internal.reservations set held_period_ids = array_append(held_period_ids, -1) where reservation_id = :'lost';
update budget_internal.reservations set held_period_ids = array[-1, -2], price_ids = array[-1] where reservation_id = :'gone';
update budget_internal.periods set held_nano_usd = held_nano_usd - 900000, open_holds = open_holds - 1,
  open_since_ms = open_since_ms - (select (extract(epoch from reserved_at) * 1000)::bigint from budget_internal.reservations where reservation_id = :'gone');
select budget_test.at('2026-11-30 12:00:30+00');
select budget.heartbeat(array[:'living'::uuid]);
select budget_test.at('2026-11-30 12:01:40+00');
select is((select failed from budget.reconcile()), 4);
select is((select status || ' ' || charged_nano_usd from budget.resolve(:'lost', 'charge', '{"input": 100, "output": 100}')), 'settled 500000', 'a lost period: the others are charged');
select is((select array_length(period_ids, 1) from budget_internal.ledger_entries where reservation_id = :'lost'), 2);
select results_eq('select * from budget_test.counters()', 'values (500::bigint, 2700::bigint), (500::bigint, 2700::bigint)', 'and give back the hold');
select is((select flags @> array['missing_period', 'resolved'] from budget.ledger where reservation_id = :'lost'), true);
-- Two rows are impossible: the first takes what nobody else accounts for; 900 of the living one stay.
update budget_internal.reservations set reserved_nano_usd = 900000 where reservation_id = :'negative';
select is((select status || ' ' || charged_nano_usd from budget.resolve(:'huge', 'charge')), 'charged 900000', 'an impossible amount becomes what was really held');
update budget_internal.reservations set reserved_nano_usd = -5 where reservation_id = :'negative';
select is((select status || ' ' || charged_nano_usd from budget.resolve(:'negative', 'release')), 'released 0');
select is((select reserved_nano_usd::bigint from budget_internal.ledger_entries where reservation_id = :'negative'), 900000::bigint);
select results_eq('select * from budget_test.counters()', 'values (1400::bigint, 900::bigint), (1400::bigint, 900::bigint)', 'the living hold stays');
select is((select status || ' ' || charged_nano_usd from budget.resolve(:'gone', 'charge')), 'charged 900000', 'price and all periods lost: still in the ledger');
select is((select array_length(period_ids, 1) from budget_internal.ledger_entries where reservation_id = :'gone'), null);
-- A provisional charge with a period lost since.
select budget_test.at('2026-11-30 12:05:00+00');
select is((select charged from budget.reconcile()), 1);
select is_empty('select * from budget.verify()', 'the books agree');
select budget.set_budget('o', 'key', 'k', 1, 'total');
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as late \gset
select is((select status from budget.settle(:'late', null, 'unknown')), 'charged');
set local session_replication_role = replica;
delete from budget_internal.periods p using budget_internal.budgets b where b.budget_id = p.budget_id and b.period = 'total';
set local session_replication_role = origin;
select is((select status || ' ' || charged_nano_usd || ' ' || flags::text from budget.resolve(:'late', 'release')), 'trued_up 0 {late,missing_period}');
select * from finish();
rollback;
