begin;
select plan(5);
select budget_test.key(100) as k \gset
-- c-son: input 3, 5-minute write 3.75, 1-hour write 6; 1,000 tokens
select is((budget.reserve(:'k', 'c-son', 1000, 0)).reserved_nano_usd, 3000000::bigint, 'writes need their feature');
select is((budget.reserve(:'k', 'c-son', 1000, 0, null, '{"features": ["cache_write_5m"]}')).reserved_nano_usd, 3750000::bigint);
select is((budget.reserve(:'k', 'c-son', 1000, 0, null, '{"features": ["cache_write_5m", "cache_write_1h"]}')).reserved_nano_usd, 6000000::bigint);
select is((budget.reserve(:'k', 'c-son', 999999999, 0)).reserved_nano_usd, 600000000::bigint, 'never more than the context window');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
