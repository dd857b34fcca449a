begin;
select plan(55);
select budget_test.key(1) as k \gset
prepare bad(text, text, numeric, text, jsonb) as select budget.set_budget('o', $1, $2, $3, $4, $5);
create temporary table want (kind text, name text, usd numeric, period text, options jsonb, said text);
insert into want values
('key', 'k', -7, 'day', '{}', 'limit_usd'),
('key', 'k', 'NaN', 'day', '{}', 'limit_usd'),
('key', 'k', 'Infinity', 'day', '{}', 'limit_usd'),
('key', 'k', 99999999999999999999, 'day', '{}', 'limit_usd'),
('key', 'k', 0.00000000001, 'day', '{}', 'limit_usd'),
('key', 'k', 1, '0d', '{}', 'period'),
('key', 'k', 1, '', '{}', 'period'),
('key', 'k', 1, null, '{}', 'period'),
('key', 'nobody', 1, 'day', '{}', 'nobody'),
('planet', 'k', 1, 'day', '{}', 'kind'),
(null, 'k', 1, 'day', '{}', 'kind'),
('run', 'k', 1, 'day', '{}', 'a run has the one budget it was started with'),
('key', 'k', 1, 'day', null, 'options'),
('key', 'k', 1, 'day', '[]', 'options'),
('key', 'k', 1, 'day', '{"nonsense": 1}', 'nonsense'),
('key', 'k', 1, 'day', '{"start_day": 0}', 'start_day'),
('key', 'k', 1, 'day', '{"name": ""}', 'name'),
('key', 'k', 1, 'day', '{"name": 5}', 'name'),
('key', 'k', 1, 'day', '{"name": "a\u0007"}', 'name'),
('key', 'k', 1, 'day', jsonb_build_object('name', repeat('x', 201)), 'name'),
('key', 'k', 1, 'day', '{"enforcement": "hard"}', 'enforcement'),
('key', 'k', 1, 'day', '{"enforcement": true}', 'enforcement'),
('key', 'k', 1, 'day', '{"time_zone": "Mars/Base"}', 'time_zone'),
('key', 'k', 1, 'day', '{"time_zone": "europe/paris"}', 'time_zone'),
('key', 'k', 1, 'day', '{"time_zone": "FOO3"}', 'time_zone'),
('key', 'k', 1, 'day', '{"time_zone": "CET"}', 'time_zone'),
('key', 'k', 1, 'day', '{"time_zone": "+02"}', 'time_zone'),
('key', 'k', 1, 'day', '{"time_zone": 2}', 'time_zone'),
('key', 'k', 1, 'day', '{"time_zone": ""}', 'time_zone'),
('key', 'k', 1, '7d', '{"anchor_at": "soon"}', 'anchor_at'),
('key', 'k', 1, '7d', '{"anchor_at": "infinity"}', 'anchor_at'),
('key', 'k', 1, '7d', '{"anchor_at": 5}', 'anchor_at'),
('key', 'k', 1, 'week', '{"anchor_at": "2027-01-01T00:00:00Z"}', 'anchor_at'),
('key', 'k', 1, 'year', '{"fiscal_month": 0}', 'fiscal_month'),
('key', 'k', 1, 'year', '{"fiscal_month": 13}', 'fiscal_month'),
('key', 'k', 1, 'year', '{"fiscal_month": "4"}', 'fiscal_month'),
('key', 'k', 1, 'quarter', '{"fiscal_day": 32}', 'fiscal_day'),
('key', 'k', 1, 'quarter', '{"fiscal_day": 1.5}', 'fiscal_day'),
('key', 'k', 1, 'month', '{"fiscal_day": 1}', 'fiscal_day'),
('key', 'k', 1, 'day', '{"models": "t-mini"}', 'models'),
('key', 'k', 1, 'day', '{"models": []}', 'models'),
('key', 'k', 1, 'day', '{"models": [1]}', 'models'),
('key', 'k', 1, 'day', '{"models": ["t-mini", "t-maxi"]}', 't-maxi'),
('key', 'k', 1, 'day', '{"raise_usd": 5}', 'raise_until'),
('key', 'k', 1, 'day', '{"raise_until": "2190-01-01T00:00:00Z"}', 'raise_usd'),
('key', 'k', 1, 'day', '{"raise_usd": -5, "raise_until": "2190-01-01T00:00:00Z"}', 'raise_usd'),
('key', 'k', 1, 'day', '{"raise_usd": 0, "raise_until": "2190-01-01T00:00:00Z"}', 'raise_usd'),
('key', 'k', 1, 'day', '{"raise_usd": 5, "raise_until": "2020-01-01T00:00:00Z"}', 'raise_until must be in the future'),
('key', 'k', null, 'day', '{"raise_usd": 5, "raise_until": "2190-01-01T00:00:00Z"}', 'raise_usd needs a limit_usd'),
('key', 'k', 9000000000, 'day', '{"raise_usd": 1, "raise_until": "2190-01-01T00:00:00Z"}', 'limit_usd with raise_usd'),
('key', 'k', null, 'day', '{"carry_over_cap_usd": 1}', 'carry_over_cap_usd needs a limit_usd'),
('key', 'k', 1, 'total', '{"carry_over_cap_usd": 1}', 'carry_over_cap_usd'),
('key', 'k', 1, 'day', '{"allocation": "each_within"}', 'allocation');
select throws_like(
  format('execute bad(%L, %L, %L, %L, %L)', w.kind, w.name, w.usd, w.period, w.options), '%' || w.said || '%',
  concat_ws(' ', w.kind, w.name, w.usd, w.period, w.options)
) from want w;
select results_eq(
  'select scope_kind::text, budget_name, limit_usd from budget.budget_status', $$values ('key', 'day', 1::numeric)$$,
  'nothing has changed'
);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
