begin;
select plan(9);
select budget_test.key(0.0009) as k \gset
select budget.explain(:'k', 't-mini', 100, 200) as e \gset
select is(:'e'::jsonb ->> 'verdict', 'granted');
select is((:'e'::jsonb ->> 'worst_case_usd')::numeric, 0.0009);
select is(jsonb_array_length(:'e'::jsonb -> 'price_lines'), 2);
select is(budget.explain(:'k', 't-mini', 101, 200) ->> 'verdict', 'request_over_limit');
select is(budget.explain('nobody', 't-mini', 101, 200) ->> 'verdict', 'invalid_key');
select is(budget.explain(:'k', 't-mini', 128000, 200) ->> 'input_note', null);
select is(
  (select (e ->> 'input_tokens', e ->> 'input_note')::text from budget.explain(:'k', 't-mini', 128001, 200) e),
  '(128000,"the model''s context window has room for 128000 tokens of input, so no more is held")'
);
select is((select count(*)::int from budget_internal.periods), 0);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
