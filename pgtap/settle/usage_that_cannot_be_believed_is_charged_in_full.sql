begin;
select plan(12);
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
-- It says what was wrong, and that a report can mend it.
select is(
  (select message from budget.settle((budget.reserve(:'k', 't-mini', 100, 200)).reservation_id, '{"input": 100, "outptu": 5}')),
  'outptu is not a charge kind; the whole hold is charged until usage is reported that can be priced'
);
select matches(
  (select string_agg(s.message, ' ' order by b.usage) from bad b
    cross join lateral budget.settle((budget.reserve(:'k', 't-mini', 100, 200)).reservation_id, b.usage) s where b.usage is null or b.flag <> 'usage_rejected'),
  '^the price .* has no rate .* no usage was reported; '
);
select is(
  (select message from budget.settle((budget.reserve(:'k', 't-mini', 100, 200)).reservation_id, '{"input": 100, "output": 5}')), null, 'nothing is wrong'
);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
