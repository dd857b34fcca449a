begin;
select plan(17);
select budget_test.at('2027-01-15 12:00:20.5+00');
select budget_test.key(1) as k \gset
select secret as l from budget.create_key('o', 'p', 'l') \gset
select budget.set_rate_limit('o', 'key', 'k', 2, null), budget.set_rate_limit('o', 'project', 'p', 3, null);
prepare windows as select s.kind::text, to_char(w.minute_at at time zone 'UTC', 'HH24:MI'), w.requests
  from budget_internal.rate_windows w join budget_internal.scopes s on s.scope_id = w.scope_id order by 1;
select is((select status from budget.reserve(:'k', 't-mini', 1, 0)), 'granted');
select is((select status from budget.reserve(:'k', 't-mini', 1, 0)), 'granted');
select results_eq(
  $$select code, scope_kind, scope_name, retry_after_seconds, resets_at from budget.reserve($$ || quote_literal(:'k') || $$, 't-mini', 1, 0)$$,
  $$values ('rate_limit_exceeded', 'key', 'k', 40, timestamptz '2027-01-15 12:01:00+00')$$, 'the third of two: 39.5 seconds are left of the minute'
);
select results_eq('windows', $$values ('key', '12:00', 2::bigint), ('project', '12:00', 2)$$, 'a refusal is not counted');
select is((select status from budget.reserve(:'l', 't-mini', 1, 0)), 'granted', 'the other key has only the limit of the project');
select is((select code || ' ' || scope_kind from budget.reserve(:'l', 't-mini', 1, 0)), 'rate_limit_exceeded project');
-- A refusal by a budget leaves no request either, and neither do the others of its batch.
select budget_test.at('2027-01-15 12:00:59.9999+00');
select is((select retry_after_seconds from budget.reserve(:'k', 't-mini', 1, 0)), 1, 'never 0');
select budget_test.at('2027-01-15 12:01:00+00');
select is((select code from budget.reserve(:'k', 't-pro', 400000, 10)), 'request_over_limit');
select results_eq('windows', $$values ('key', '12:00', 2::bigint), ('project', '12:00', 3)$$, 'a refusal does not begin a minute');
select is((select status from budget.reserve(:'k', 't-mini', 1, 0, 'a')), 'granted', 'a new minute');
select results_eq('windows', $$values ('key', '12:01', 1::bigint), ('project', '12:01', 1)$$);
-- Granted again is no request; a call that was never sent gives its request back.
select is((select status from budget.reserve(:'k', 't-mini', 1, 0, 'a')), 'granted_again');
select budget.settle((select reservation_id from budget_internal.reservations where request_id = 'a'), null, 'unsent');
select results_eq('windows', $$values ('key', '12:01', 0::bigint), ('project', '12:01', 0)$$);
-- Within one batch each sees those before it.
select is((
  select string_agg(coalesce(code, status), ' ' order by item) from budget.reserve_batch((
    select jsonb_agg(jsonb_build_object('key', case when i = 2 then :'l' else :'k' end, 'model', 't-mini', 'input_tokens', 1, 'max_output_tokens', 0))
    from generate_series(1, 5) i
  ))
), 'granted granted granted rate_limit_exceeded rate_limit_exceeded');
select budget.set_rate_limit('o', 'key', 'k', 9, null), budget.set_rate_limit('o', 'project', 'p', 4, null);
select is((select status from budget.reserve(:'k', 't-mini', 1, 0)), 'granted', 'raised: acts on the next request');
select is((select code from budget.reserve(:'k', 't-mini', 1, 0)), 'rate_limit_exceeded', 'with what is counted');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
