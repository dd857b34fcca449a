begin;
select plan(9);
-- PRICE-09.
select budget_test.at('2026-11-30T12:00:00Z');
select budget_test.key(1) as key \gset
select reservation_id, reserved_nano_usd from budget.reserve(:'key', 't-mini', 100, 200) \gset
select is(:reserved_nano_usd, 900000);
select reservation_id as second from budget.reserve(:'key', 't-mini', 100, 200) \gset
select budget_test.at('2026-11-30T12:00:05Z');
select budget.review_price(budget.add_price('simulator', 't-mini', '[
  {"kind": "input", "usd": "1"}, {"kind": "cache_read", "usd": "0.25"}, {"kind": "output", "usd": "8"}
]', '2026-11-30T12:00:05Z'), 'me');
select is((select charged_nano_usd from budget.settle(:'reservation_id', '{"input": 100, "output": 200}')), 900000::bigint,
  'charged by the version that it was held by');
select is((select charged_nano_usd from budget.settle(:'second', null, 'unknown')), 900000::bigint);
select is((select charged_nano_usd from budget.settle(:'second', '{"input": 100, "output": 100}')), 500000::bigint,
  'a correction too');
select is((select reserved_nano_usd::bigint from budget.reserve(:'key', 't-mini', 100, 200)), 1700000::bigint, 'the next call has the new one');
select is(budget.quote('simulator', 't-mini', '{"input": 100, "output": 200}'), 1700000::bigint);
select is(budget.quote('simulator', 't-mini', '{"input": 100, "output": 200}', '2026-11-30T12:00:04Z'), 900000::bigint, 'history stays');
select is(count(distinct price_id)::integer, 1, 'the ledger says which') from budget_internal.ledger_entries;
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
