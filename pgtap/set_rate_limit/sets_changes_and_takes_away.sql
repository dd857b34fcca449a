begin;
select plan(12);
select budget_test.key() as k \gset
prepare limits as
  select s.kind || ' ' || s.name, l.requests_per_minute, l.tokens_per_minute
  from budget_internal.rate_limits l join budget_internal.scopes s on s.scope_id = l.scope_id order by 1;
select budget.set_rate_limit('o', 'key', 'k', 1, 10000000), budget.set_rate_limit('o', 'project', 'p', 60, null);
select results_eq('limits', $$values ('key k', 1::bigint, 10000000::bigint), ('project p', 60, null)$$);
select budget.set_rate_limit('o', 'key', 'k', null, 5);
select results_eq('limits', $$values ('key k', null::bigint, 5::bigint), ('project p', 60, null)$$);
select budget.set_rate_limit('o', 'key', 'k', null, null);
select results_eq('limits', $$values ('project p', 60::bigint, null::bigint)$$);
select budget_test.refused($$select budget.set_rate_limit('o', 'key', 'k', 0, null)$$, 'requests_per_minute');
select budget_test.refused($$select budget.set_rate_limit('o', 'key', 'k', -5, null)$$, 'requests_per_minute');
select budget_test.refused($$select budget.set_rate_limit('o', 'key', 'k', 10000001, null)$$, 'requests_per_minute');
select budget_test.refused($$select budget.set_rate_limit('o', 'project', 'p', 1, 0)$$, 'tokens_per_minute');
select budget_test.refused($$select budget.set_rate_limit('o', 'project', 'p', 1, 10000001)$$, 'tokens_per_minute');
select budget_test.refused($$select budget.set_rate_limit('o', 'org', 'o', 1, 1)$$, 'kind');
select budget_test.refused($$select budget.set_rate_limit('o', null, 'o', 1, 1)$$, 'kind');
select budget_test.refused($$select budget.set_rate_limit('o', 'key', 'nobody', 1, 1)$$, 'nobody');
select results_eq('limits', $$values ('project p', 60::bigint, null::bigint)$$, 'nothing else was changed');
select * from finish();
rollback;
