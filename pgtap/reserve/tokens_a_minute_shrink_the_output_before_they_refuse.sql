begin;
select plan(18);
select budget_test.at('2027-01-15 12:00:15+00');
select budget_test.key(1) as k \gset
select budget.set_rate_limit('o', 'key', 'k', null, 1000);
create temporary table asked as select :'k'::text as k;
prepare windows as select s.kind::text, w.requests, w.tokens
  from budget_internal.rate_windows w join budget_internal.scopes s on s.scope_id = w.scope_id order by 1;
select is((select granted_output_tokens from budget.reserve(:'k', 't-mini', 100, 200)), 200::bigint, 'with room, as asked');
-- 1,000 - 300 - 100 leave 600 for the output: 100 x 1 + 600 x 4.
select results_eq(
  $$select status, granted_output_tokens, reserved_nano_usd, worst_case_nano_usd from budget.reserve($$ || quote_literal(:'k') || $$, 't-mini', 100, 5000, 'b')$$,
  $$values ('granted', 600::bigint, 2500000::bigint, 2500000::bigint)$$, 'cut to what is left, and held at that price'
);
select results_eq('windows', $$values ('key', 2::bigint, 1000::bigint)$$);
select results_eq(
  $$select code, scope_kind, retry_after_seconds from budget.reserve($$ || quote_literal(:'k') || $$, 't-mini', 1, 1)$$,
  $$values ('tokens_limit_exceeded', 'key', 45)$$
);
select results_eq('windows', $$values ('key', 2::bigint, 1000::bigint)$$, 'a refusal takes no tokens');
select is((select status from budget.reserve(:'k', 't-mini', 0, 0)), 'granted', 'no tokens fit in no room');
-- The repeat of a call that was cut gets what the first was granted.
select is((select status || ' ' || granted_output_tokens from budget.reserve(:'k', 't-mini', 100, 5000, 'b')), 'granted_again 600');

-- To the token: input and one token for each choice.
select budget_test.at('2027-01-15 12:01:00+00');
select is((select granted_output_tokens from budget.reserve(:'k', 't-mini', 990, 500, 'n', '{"n": 3}')), 3::bigint, '10 left for three choices');
select budget.settle((select reservation_id from budget_internal.reservations where request_id = 'n'), null, 'unsent');
select is((select granted_output_tokens from budget.reserve(:'k', 't-mini', 997, 500, 'n', '{"n": 3}')), 1::bigint);
select budget.settle((select reservation_id from budget_internal.reservations where request_id = 'n'), null, 'unsent');
prepare never as select code, scope_kind, scope_name, message, resets_at, retry_after_seconds
  from budget.reserve((select k from asked), 't-mini', 998, 500, 'n', '{"n": 3}');
select results_eq('never', $$values (
  'request_over_limit', 'key', 'k',
  'key "k" may use 1000 tokens a minute, and this request needs at least 1001: it can never fit; shorten the input or ask for a higher limit',
  null::timestamptz, null::integer
)$$, 'above the whole limit: no time to come back at');
-- Also when the minute is full: who waits for that would wait in vain.
select budget.reserve(:'k', 't-mini', 900, 0, 'full');
select results_eq('never', $$values (
  'request_over_limit', 'key', 'k',
  'key "k" may use 1000 tokens a minute, and this request needs at least 1001: it can never fit; shorten the input or ask for a higher limit',
  null::timestamptz, null::integer
)$$, 'in a full minute too');
select is((select code from budget.reserve(:'k', 't-mini', 997, 500, 'm', '{"n": 3}')), 'tokens_limit_exceeded', 'what fits in an empty minute is for later');
select budget.settle((select reservation_id from budget_internal.reservations where request_id = 'full'), null, 'unsent');
select is((select status from budget.reserve(:'k', 't-mini', 1000, 0, 'n', '{"n": 3}')), 'granted', 'without output the input alone counts');

-- The tighter of key and project; the shrunk output can fit a budget that the asked one does not.
select budget_test.at('2027-01-15 12:02:00+00');
select budget.set_rate_limit('o', 'project', 'p', null, 150), budget.set_budget('o', 'key', 'k', 0.0003, 'total', '{"name": "small"}');
select is((select granted_output_tokens || ' ' || reserved_nano_usd from budget.reserve(:'k', 't-mini', 100, 5000)), '50 300000');
select results_eq('windows', $$values ('key', 1::bigint, 150::bigint), ('project', 1, 150)$$);
select is((select code || ' ' || scope_kind from budget.reserve(:'k', 't-mini', 1, 1)), 'tokens_limit_exceeded project');
-- The order of the codes: requests a minute before tokens a minute before budgets.
select budget.set_rate_limit('o', 'key', 'k', 1, 1000);
select is((select code || ' ' || scope_kind from budget.reserve(:'k', 't-mini', 1, 1)), 'rate_limit_exceeded key');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
