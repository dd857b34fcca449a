begin;
select plan(9);
select budget_test.at('2026-11-30 12:00:00+00');
select budget_test.key(0.001) as k \gset
select budget.settle((budget.reserve(:'k', 't-mini', 100, 200)).reservation_id, '{"input": 100, "output": 200}');
select * from budget.reserve(:'k', 't-mini', 101, 0) \gset
select is((:'code')::text, 'budget_exceeded');
select is((:'scope_kind' || ' ' || :'scope_name' || ' ' || :'budget_name')::text, 'key k day');
select is(:available_nano_usd, 100000);
select is(:worst_case_nano_usd, 101000);
select is(:'resets_at'::timestamptz, '2026-12-01 00:00:00+00'::timestamptz);
select is(:retry_after_seconds, 43200);
select matches((:'message')::text, '\$0\.000101.*day budget of key "k" has \$0\.0001 left.*2026-12-01T00:00:00Z');
select budget_test.at('2026-12-01 00:00:00+00');
select is((select status from budget.reserve(:'k', 't-mini', 101, 0)), 'granted', 'the next period has a fresh counter');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
