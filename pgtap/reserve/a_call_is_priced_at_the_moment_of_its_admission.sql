begin;
select plan(10);
select budget.set_model('x', 'm', null, null);
select budget.review_price(budget.add_price('x', 'm', '[
  {"kind": "input", "usd": "1"}, {"kind": "output", "usd": "1"},
  {"kind": "input", "usd": "2", "window": {"from": "01:00", "to": "04:00"}},
  {"kind": "output", "usd": "2", "window": {"from": "01:00", "to": "04:00"}}
]', '2020-01-01T00:00:00Z'), 'me');
select budget.set_route(null, 'mm', 'x', 'main', 'm');
select budget_test.key(1) as key \gset
create function pg_temp.hold(p_at text) returns budget.reserve_result
language sql
as $$ select budget_test.at(p_at); select r from budget.reserve(current_setting('t.key'), 'mm', 100, 200) r $$;
select set_config('t.key', :'key', true);
select reservation_id, reserved_nano_usd from pg_temp.hold('2026-11-30T00:30:00Z') \gset
select is(:reserved_nano_usd, 300000, 'off-peak');
select budget_test.at('2026-11-30T01:30:00Z');
select is((select charged_nano_usd from budget.settle(:'reservation_id', '{"input": 100, "output": 200}')), 300000::bigint,
  'a call that runs into the window is charged by its admission');
select reservation_id, reserved_nano_usd from pg_temp.hold('2026-11-30T03:59:00Z') \gset
select is(:reserved_nano_usd, 600000, 'at the peak');
select budget_test.at('2026-11-30T04:10:00Z');
select is((select charged_nano_usd from budget.settle(:'reservation_id', '{"input": 100, "output": 100}')), 400000::bigint,
  'as is one that runs out of it');
select reservation_id from pg_temp.hold('2026-11-30T00:31:00Z') \gset
select budget_test.at('2026-11-30T01:31:00Z');
select is((select charged_nano_usd from budget.settle(:'reservation_id', null, 'unknown')), 300000::bigint, 'the whole hold');
select is((select charged_nano_usd from budget.settle(:'reservation_id', '{"input": 100, "output": 100}')), 200000::bigint,
  'and its correction, however late');
-- Priced before the locks, stamped after them: the window that opens in between is held already.
select is((pg_temp.hold('2026-11-30T00:59:45Z')).reserved_nano_usd::bigint, 600000::bigint, 'just before it opens');
select is((pg_temp.hold('2026-11-30T03:59:45Z')).reserved_nano_usd::bigint, 600000::bigint, 'just before it closes');
select is((pg_temp.hold('2026-11-30T00:58:45Z')).reserved_nano_usd::bigint, 300000::bigint);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
