begin;
select plan(22);
select budget_test.key() as k \gset
create temporary table want (at timestamptz, period text, zone text, starts timestamptz, ends timestamptz);
insert into want values
('2026-11-30 05:00:00+00', 'day', 'UTC', '2026-11-30 00:00:00+00', '2026-12-01 00:00:00+00'),
('2026-08-19 15:59:59+00', 'day', 'Asia/Shanghai', '2026-08-18 16:00:00+00', '2026-08-19 16:00:00+00'),
('2026-08-19 16:00:00+00', 'day', 'Asia/Shanghai', '2026-08-19 16:00:00+00', '2026-08-20 16:00:00+00'),
('2026-03-29 12:00:00+00', 'day', 'Europe/Berlin', '2026-03-28 23:00:00+00', '2026-03-29 22:00:00+00'),
('2026-10-25 12:00:00+00', 'day', 'Europe/Berlin', '2026-10-24 22:00:00+00', '2026-10-25 23:00:00+00'),
('2026-03-08 12:00:00+00', 'day', 'America/Havana', '2026-03-08 05:00:00+00', '2026-03-09 04:00:00+00'),
('2026-11-01 04:30:00+00', 'day', 'America/Havana', '2026-11-01 04:00:00+00', '2026-11-02 05:00:00+00'),
('2026-11-01 05:30:00+00', 'day', 'America/Havana', '2026-11-01 04:00:00+00', '2026-11-02 05:00:00+00'),
('2026-11-29 23:59:59+00', 'week', 'UTC', '2026-11-23 00:00:00+00', '2026-11-30 00:00:00+00'),
('2026-11-30 00:00:00+00', 'week', 'UTC', '2026-11-30 00:00:00+00', '2026-12-07 00:00:00+00'),
('2028-02-29 12:00:00+00', 'month', 'UTC', '2028-02-01 00:00:00+00', '2028-03-01 00:00:00+00'),
('2026-11-30 12:00:00+00', 'quarter', 'UTC', '2026-10-01 00:00:00+00', '2027-01-01 00:00:00+00'),
('2026-12-31 23:30:00+00', 'year', 'Europe/Paris', '2026-12-31 23:00:00+00', '2027-12-31 23:00:00+00'),
('2026-11-30 12:00:00+00', '1d', 'Europe/Paris', '2026-11-30 06:00:00+00', '2026-12-01 06:00:00+00'),
('2026-11-30 05:59:59+00', '1d', 'UTC', '2026-11-29 06:00:00+00', '2026-11-30 06:00:00+00'),
('2026-01-14 12:00:00+00', '7d', 'UTC', '2026-01-08 06:00:00+00', '2026-01-15 06:00:00+00'),
('2025-12-31 12:00:00+00', '7d', 'UTC', '2025-12-25 06:00:00+00', '2026-01-01 06:00:00+00'),
('2026-01-31 06:00:00+00', '30d', 'UTC', '2026-01-31 06:00:00+00', '2026-03-02 06:00:00+00'),
('2026-11-30 12:00:00+00', 'total', 'UTC', '-infinity', 'infinity');
set local time zone 'Pacific/Auckland';
select is(
  (select row(b.starts_at, b.ends_at)::text from budget_internal.period_bounds(w.period::budget.period_kind, '2026-01-01 06:00:00+00', w.zone, 1::smallint, 1::smallint, w.at) b),
  row(w.starts, w.ends)::text, w.period || ' ' || w.zone || ' ' || (w.at at time zone 'UTC')
) from want w;
set local time zone 'UTC';
select budget.set_budget('o', 'key', 'k', 1, 'total');
select is((select row(starts_at, ends_at)::text from budget.budget_status), '(,)');
select is((select binding from budget.key_budgets(:'k')), true);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
