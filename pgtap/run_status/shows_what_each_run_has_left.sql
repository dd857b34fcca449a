begin;
select plan(5);
select budget_test.at('2026-11-30 12:00:00+00');
select budget_test.key(1) as k \gset
select budget.start_run(:'k', 'whole', '{"ceiling_usd": "0.01", "max_steps": 5}');
select budget.start_run(:'k', 'part', '{"ceiling_usd": "0.004", "parent_run": "whole"}');
select budget.reserve(:'k', 't-mini', 1000, 0, null, '{"run": {"id": "whole"}}');
select budget.settle((budget.reserve(:'k', 't-mini', 500, 0, null, '{"run": {"id": "part"}}')).reservation_id, '{"input": 500}');
-- whole: $0.0005 spent by its part, of whose $0.004 it still holds $0.0035; $0.001 for its own call.
select results_eq(
  'select org, key_name, run, parent_run, ceiling_usd, spent_usd, held_usd, available_usd, steps, max_steps, started_at, ended_at from budget.run_status order by run',
  $$values
    ('o', 'k', 'part', 'whole', 0.004, 0.0005, 0::numeric, 0.0035, 1::bigint, null::bigint, timestamptz '2026-11-30 12:00:00+00', null::timestamptz),
    ('o', 'k', 'whole', null, 0.01, 0.0005, 0.0045, 0.005, 1, 5, '2026-11-30 12:00:00+00', null)
  $$
);
select budget_test.at('2026-11-30 12:10:00+00');
select budget.end_run(:'k', 'part');
select results_eq(
  'select run, available_usd, ended_at from budget.run_status order by run',
  $$values ('part', 0.0035, timestamptz '2026-11-30 12:10:00+00'), ('whole', 0.0085, null)$$, 'what is unused goes back'
);
select is((select count(*)::int from budget.run_status where org = 'o' and key_name = 'k' and run = 'whole'), 1);
set local role budget_reader;
select is((select count(*)::int from budget.run_status), 2, 'readers may look');
reset role;
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
