begin;
select plan(9);
select budget_test.key(1) as k \gset
create temporary table bad (usage jsonb, flag text);
insert into bad values
('{"input": -1}', 'usage_rejected'), ('{"input": 1.5}', 'usage_rejected'), ('{"input": "5"}', 'usage_rejected'),
('{"input": 1e30}', 'usage_rejected'), ('{"nonsense": 5}', 'usage_rejected'), ('[1]', 'usage_rejected'),
('{"audio_in": 5}', 'usage_unpriced'), (null, 'usage_missing');
select is(
  (select array[s.charged_nano_usd::text, s.flags::text] from budget.settle((budget.reserve(:'k', 't-mini', 100, 200)).reservation_id, b.usage) s),
  array['900000', '{provisional,' || b.flag || '}'], coalesce(b.usage::text, 'no usage')
) from bad b;
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
