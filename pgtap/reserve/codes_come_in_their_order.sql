begin;
select plan(8);
select budget_test.key(0.000001, '{"allowed_models": ["t-mini", "gone", "unpriced"]}') as k \gset
select budget.set_model('simulator', 'unpriced', 1000, 10), budget.set_route(null, 'unpriced', 'simulator', 'simulator');
select is((select code from budget.reserve(:'k', 't-pro', 1, 1)), 'model_not_allowed');
select is((select code from budget.reserve(:'k', 'gone', 1, 1)), 'model_not_found');
select is((select code from budget.reserve(:'k', 'unpriced', 1, 1)), 'model_unpriced');
select is((select code from budget.reserve(:'k', 't-mini', 1, 1)), 'request_over_limit');
select budget.set_policy('o', '{"require_output_limit": true}');
select is((select code from budget.reserve(:'k', 't-mini', 1)), 'output_limit_required');
select budget.disable_key('o', 'k');
select is((select code from budget.reserve(:'k', 't-pro', 1, 1)), 'key_disabled');
select is((select code from budget.reserve(:'k', 't-mini', -1, 1)), 'invalid_request', 'bad input comes before the key');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
