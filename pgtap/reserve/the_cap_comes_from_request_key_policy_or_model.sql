begin;
select plan(8);
select budget_test.key(100, '{"max_output_tokens": 9000}') as k \gset
select is((budget.reserve(:'k', 't-mini', 1)).granted_output_tokens, 8192::bigint, 'nothing configured: 8192');
select is((budget.reserve(:'k', 't-mini', 1, 12000)).granted_output_tokens, 9000::bigint, 'never over the key''s');
select is((budget.reserve(:'k', 't-mini', 1, 7)).granted_output_tokens, 7::bigint, 'the request''s own');
select budget.set_policy(null, '{"default_max_output_tokens": 3000}');
select is((budget.reserve(:'k', 't-mini', 1)).granted_output_tokens, 3000::bigint, 'the installation''s');
select budget.set_policy('o', '{"default_max_output_tokens": 2000}');
select is((budget.reserve(:'k', 't-mini', 1)).granted_output_tokens, 2000::bigint, 'the org''s before it');
update budget_internal.keys set default_max_output_tokens = 1000;
select is((budget.reserve(:'k', 't-mini', 1)).granted_output_tokens, 1000::bigint, 'the key''s before both');
select is((budget.reserve(:'k', 't-mini', 1, 10, null, '{"n": 3}')).reserved_nano_usd, 121000::bigint, 'n multiplies it');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
