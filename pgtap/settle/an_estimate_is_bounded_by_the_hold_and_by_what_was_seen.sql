begin;
select plan(5);
select budget_test.key(1) as k \gset
create temporary table estimate (usage jsonb, seen jsonb, want bigint);
insert into estimate values
('{"input": 50, "output": 10}', null, 90000), ('{"input": 5000, "output": 9000}', null, 900000),
('{"input": 50, "output": 10}', '{"input": 60, "output": 20}', 140000), ('{"input": 1, "output": 1}', '{"input": 100, "output": 2000}', 8100000);
select is((
  select s.charged_nano_usd from budget.settle_batch(jsonb_build_array(jsonb_build_object(
    'reservation_id', (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id, 'outcome', 'estimated', 'usage', e.usage, 'usage_seen', e.seen
  ))) s
), e.want, e.usage::text || coalesce(e.seen::text, '')) from estimate e;
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
