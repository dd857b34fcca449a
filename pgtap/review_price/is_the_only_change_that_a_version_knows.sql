begin;
select plan(15);
select budget.set_model('x', 'm', null, null);
select budget.add_price('x', 'm', '[
  {"kind": "input", "usd": "1"}, {"kind": "input", "usd": "2", "window": {"from": "01:00", "to": "02:00"}}
]', '2026-01-01T00:00:00Z') as price \gset
create function pg_temp.update(p_set text) returns text
language sql
as $$ select format('update budget_internal.prices set %s where provider = %L', p_set, 'x') $$;
select throws_ok(pg_temp.update($$source = 'another'$$), 'LB910');
select throws_ok(pg_temp.update($$effective_to = '2026-02-01T00:00:00Z'$$), 'LB910', null, 'an end comes with a review or after it');
select throws_ok(pg_temp.update($$model = 'other'$$), 'LB910');
select budget.review_price(:price, 'ann');
select throws_ok(pg_temp.update($$reviewed_by = 'eve'$$), 'LB910');
select throws_ok(pg_temp.update($$reviewed_by = null, reviewed_at = null$$), 'LB910');
select throws_ok(pg_temp.update($$detail = '{}'$$), 'LB910');
select throws_ok(pg_temp.update($$effective_from = '2025-01-01T00:00:00Z'$$), 'LB910');
select throws_ok($$delete from budget_internal.prices where provider = 'x'$$, 'LB910');
select throws_ok($$update budget_internal.price_windows set from_minute = 0$$, 'LB910');
select throws_ok($$delete from budget_internal.price_windows$$, 'LB910');
select throws_ok(format(
  'insert into budget_internal.price_windows (price_id, window_no, from_minute, to_minute) values (%s, 9, 0, 5)', :price
), 'LB910');
select lives_ok(pg_temp.update($$effective_to = '2026-06-01T00:00:00Z'$$), 'an end is given once');
select throws_ok(pg_temp.update($$effective_to = '2026-07-01T00:00:00Z'$$), 'LB910', null, 'it is never later');
select throws_ok(pg_temp.update($$effective_to = '2026-05-01T00:00:00Z'$$), 'LB910', null, 'nor earlier by itself');
select throws_ok(pg_temp.update($$effective_to = null$$), 'LB910', null, 'nor taken back');
select * from finish();
rollback;
