begin;
select plan(12);
select budget_test.at('2027-01-15 12:00:00+00');
select budget_test.key(0.0009) as k \gset
create function budget_test.busy(p_key text, p_input bigint, p_output bigint) returns text language sql as $$
  select code || ' ' || retry_after_seconds from budget.reserve(p_key, 't-mini', p_input, p_output)
$$;
-- In one batch nothing is known yet.
select is((
  select string_agg(coalesce(code || ' ' || retry_after_seconds, status), ', ' order by item)
  from budget.reserve_batch(jsonb_build_array(
    jsonb_build_object('key', :'k', 'model', 't-mini', 'input_tokens', 100, 'max_output_tokens', 200),
    jsonb_build_object('key', :'k', 'model', 't-mini', 'input_tokens', 100, 'max_output_tokens', 200)))
), 'granted, budget_busy 1');
-- The first of its kind is expected to last as long again as it has lasted.
select budget_test.at('2027-01-15 12:00:07+00');
select is(budget_test.busy(:'k', 100, 200), 'budget_busy 7');
select budget_test.at('2027-01-15 12:00:10+00');
select budget.settle((select reservation_id from budget_internal.reservations), '{"input": 0}');
-- Holds of this budget last 10 seconds. One that is 4 seconds old: 10 - 4.
select (budget.reserve(:'k', 't-mini', 100, 200)).reservation_id as r \gset
select budget_test.at('2027-01-15 12:00:14+00');
select is(budget_test.busy(:'k', 100, 200), 'budget_busy 6');
select budget_test.at('2027-01-15 12:00:19.3+00');
select is(budget_test.busy(:'k', 100, 200), 'budget_busy 1', '0.7 seconds, never 0');
select budget_test.at('2027-01-15 12:00:35+00');
select is(budget_test.busy(:'k', 100, 200), 'budget_busy 25', 'older than they use to get: as long again');
select budget_test.at('2027-01-15 12:03:00+00');
select is(budget_test.busy(:'k', 100, 200), 'budget_busy 60', 'a minute at most');
-- The mean moves by an eighth: (7 x 10 + 170) / 8 = 30 seconds.
select budget.settle(:'r', '{"input": 0}');
-- Three holds of 300, 12, 9 and 6 seconds old, are 9 on average: what they have left is taken as spread over 0 to 42.
select budget_test.at('2027-01-15 12:10:00+00');
select budget.reserve(:'k', 't-mini', 300, 0);
select budget_test.at('2027-01-15 12:10:03+00');
select budget.reserve(:'k', 't-mini', 300, 0);
select budget_test.at('2027-01-15 12:10:06+00');
select budget.reserve(:'k', 't-mini', 300, 0);
select budget_test.at('2027-01-15 12:10:12+00');
select is(budget_test.busy(:'k', 300, 0), 'budget_busy 11', 'one must end: 42 x 1/4 = 10.5');
select is(budget_test.busy(:'k', 301, 0), 'budget_busy 21', 'two must end: 42 x 2/4');
select is(budget_test.busy(:'k', 900, 0), 'budget_busy 32', 'all must end: 42 x 3/4 = 31.5');
-- A new period begins without these holds.
select budget_test.at('2027-01-15 23:59:57+00');
select is(budget_test.busy(:'k', 900, 0), 'budget_busy 3');
-- The spend alone in the way: to the reset.
select budget.settle(reservation_id, '{"input": 300}') from budget_internal.reservations;
select is(budget_test.busy(:'k', 1, 0), 'budget_exceeded 3');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
