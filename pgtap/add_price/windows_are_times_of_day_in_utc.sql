begin;
select plan(16);
select budget.set_model('x', 'm', null, null);
select budget.review_price(budget.add_price('x', 'm', '[
  {"kind": "input", "usd": "1"}, {"kind": "output", "usd": "2"}, {"kind": "input", "usd": "7", "above_input_tokens": 1000},
  {"kind": "cache_read", "usd": "0.1"},
  {"kind": "input", "usd": "3", "window": {"from": "01:00", "to": "04:00", "weekdays": [1, 2, 3, 4, 5]}},
  {"kind": "output", "usd": "5", "window": {"from": "22:00", "to": "00:30", "weekdays": [5, 7]}}
]', '2020-01-01T00:00:00Z'), 'me');
set local time zone 'America/New_York';
create function pg_temp.input(p_at text, p_tokens integer default 1) returns bigint
language sql
as $$ select budget.quote('x', 'm', jsonb_build_object('input', p_tokens), p_at::timestamptz) / 1000 $$;
create function pg_temp.output(p_at text) returns bigint
language sql
as $$ select budget.quote('x', 'm', '{"output": 1}', p_at::timestamptz) / 1000 $$;
-- 2026-11-30 is a Monday.
select is(pg_temp.input('2026-11-30T00:59:59.999Z'), 1::bigint, 'just before');
select is(pg_temp.input('2026-11-30T01:00:00Z'), 3::bigint, 'from its first moment');
select is(pg_temp.input('2026-11-30T03:59:59.999Z'), 3::bigint, 'to its last');
select is(pg_temp.input('2026-11-30T04:00:00Z'), 1::bigint, 'and no longer');
select is(pg_temp.input('2026-11-29T02:00:00Z'), 1::bigint, 'not on a Sunday');
select is(pg_temp.input('2026-11-30T02:00:00Z', 1001), 3003::bigint, 'while it is open it is taken instead of the tiers of its kind');
select is(pg_temp.input('2026-11-30T05:00:00Z', 1001), 7007::bigint, 'and they hold for the rest of the day');
select is(budget.quote('x', 'm', '{"cache_read": 10}', '2026-11-30T02:00:00Z'), 1000::bigint, 'a kind without a window has one rate all day');
select is(pg_temp.output('2026-12-04T22:00:00Z'), 5::bigint, 'Friday evening');
select is(pg_temp.output('2026-12-05T00:29:59Z'), 5::bigint, 'past midnight it is still the window of Friday');
select is(pg_temp.output('2026-12-05T00:30:00Z'), 2::bigint);
select is(pg_temp.output('2026-12-05T22:00:00Z'), 2::bigint, 'Saturday evening is none');
select is(pg_temp.output('2026-12-04T00:10:00Z'), 2::bigint, 'nor is the night before Friday');
select is(pg_temp.output('2026-12-07T00:10:00Z'), 5::bigint, 'the window of Sunday ends on Monday');
select results_eq($$
  select from_minute::integer, to_minute::integer, weekdays::integer[] from budget_internal.price_windows w
  join budget_internal.prices p on p.price_id = w.price_id and p.provider = 'x' order by 1
$$, $$ values (0, 30, '{1,6}'::integer[]), (60, 240, '{1,2,3,4,5}'), (1320, 1440, '{5,7}') $$, 'past midnight is two windows');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
