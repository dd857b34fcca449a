begin;
select plan(9);
select budget_test.at('2027-01-15 12:00:10+00');
select budget_test.key(1) as k \gset
select budget.set_rate_limit('o', 'key', 'k', 100, 10000), budget.set_rate_limit('o', 'project', 'p', 100, null);
prepare windows as select s.kind::text, to_char(w.minute_at at time zone 'UTC', 'HH24:MI'), w.requests, w.tokens
  from budget_internal.rate_windows w join budget_internal.scopes s on s.scope_id = w.scope_id order by 1;
select budget.reserve(:'k', 't-mini', 100, 200, i::text) from generate_series(1, 7) i;
create function budget_test.end_call(p_request_id text, p_usage jsonb, p_outcome text) returns text language sql as $$
  select status from budget.settle((select reservation_id from budget_internal.reservations where request_id = p_request_id), p_usage, p_outcome)
$$;
-- 7 x 300 = 2,100 are counted. What ends in the minute counts as what it used, cached and reasoning tokens with the others.
select budget_test.end_call('1', '{"input": 50, "cache_read": 10, "output": 20, "reasoning": 5}', 'finished');
select results_eq('windows', $$values ('key', '12:00', 7::bigint, 1885::bigint), ('project', '12:00', 7, 1885)$$, '2,100 - 300 + 85');
select budget_test.end_call('2', '{"input": 100, "output": 400}', 'finished');
select results_eq('windows', $$values ('key', '12:00', 7::bigint, 2085::bigint), ('project', '12:00', 7, 2085)$$, 'more than was held: + 200');
select budget_test.end_call('3', null, 'unknown');
select results_eq('windows', $$values ('key', '12:00', 7::bigint, 2085::bigint), ('project', '12:00', 7, 2085)$$, 'what is not known stays as it was counted');
select budget_test.end_call('4', null, 'released');
select results_eq('windows', $$values ('key', '12:00', 7::bigint, 1785::bigint), ('project', '12:00', 7, 1785)$$, 'a released call was a request without tokens');
select budget_test.end_call('5', null, 'unsent');
select results_eq('windows', $$values ('key', '12:00', 6::bigint, 1485::bigint), ('project', '12:00', 6, 1485)$$, 'an unsent one was none');
-- In the next minute, before and after its first call, nothing is left to correct.
select budget_test.at('2027-01-15 12:01:00+00');
select budget.reserve(:'k', 't-mini', 1, 0);
select results_eq('windows', $$values ('key', '12:01', 1::bigint, 1::bigint), ('project', '12:01', 1, 1)$$);
select budget_test.end_call('6', '{"output": 1}', 'finished');
select budget_test.end_call('7', null, 'unsent');
select results_eq('windows', $$values ('key', '12:01', 1::bigint, 1::bigint), ('project', '12:01', 1, 1)$$, 'nor in another minute');
-- The room that a correction gives back is there for the next request.
select budget.set_rate_limit('o', 'key', 'k', 100, 301);
select budget.reserve(:'k', 't-mini', 100, 200, 'x');
select budget_test.end_call('x', '{"input": 100}', 'finished');
select is((select granted_output_tokens from budget.reserve(:'k', 't-mini', 100, 500)), 100::bigint, '301 - 1 - 100 - 100');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
