begin;
select plan(4);
select budget_test.key(0.0009) as k \gset
select is((select code from budget.reserve(:'k', 't-mini', 1000, 0, 'r')), 'request_over_limit');
select budget.set_budget('o', 'key', 'k', 1, 'day');
select is((select status from budget.reserve(:'k', 't-mini', 1000, 0, 'r')), 'granted', 'decided afresh');
select results_eq(
  format($$select coalesce(code, status) from budget.reserve_batch(jsonb_build_array(
    jsonb_build_object('key', %1$L, 'model', 't-mini', 'input_tokens', 1), 7, 'x', null,
    jsonb_build_object('key', 'nobody', 'model', 't-mini', 'input_tokens', 1),
    jsonb_build_object('key', %1$L, 'model', 't-mini', 'input_tokens', 1e30),
    jsonb_build_object('key', %1$L, 'model', 't-mini', 'input_tokens', 1)))$$, :'k'),
  $$values ('granted'), ('invalid_request'), ('invalid_request'), ('invalid_request'), ('invalid_key'), ('invalid_request'), ('granted')$$
);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
