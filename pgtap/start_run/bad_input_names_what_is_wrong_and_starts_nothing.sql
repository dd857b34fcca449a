begin;
select plan(23);
select budget_test.key(1, '{"run_ceiling_usd": "0.0018", "run_max_steps": 3}') as k \gset
select secret as free from budget.create_key('o', 'p', 'l') \gset
create function budget_test.says(p_key text, p_run text, p_options jsonb, p_field text) returns text language sql as $$
  select budget_test.refused(format('select budget.start_run(%L, %L, %L)', p_key, p_run, p_options), p_field)
$$;
select budget_test.says(:'k', 'r', '{"ceiling": 1}', 'ceiling');
select budget_test.says(:'k', 'r', '[]', 'options');
select budget_test.says(:'k', '', '{}', 'run.id');
select budget_test.says(:'k', ' r', '{}', 'run.id');
select budget_test.says(:'k', repeat('r', 201), '{}', 'run.id');
select budget_test.says(:'k', E'a\nb', '{}', 'run.id');
select budget_test.says(:'k', 'r', '{"ceiling_usd": -1}', 'ceiling_usd');
select budget_test.says(:'k', 'r', '{"ceiling_usd": "NaN"}', 'ceiling_usd');
select budget_test.says(:'k', 'r', '{"ceiling_usd": 0.0000000001}', 'ceiling_usd');
select budget_test.says(:'k', 'r', '{"ceiling_usd": 9000000001}', 'ceiling_usd');
select budget_test.says(:'k', 'r', '{"max_steps": 0}', 'max_steps');
select budget_test.says(:'k', 'r', '{"max_steps": 1.5}', 'max_steps');
select budget_test.says(:'k', 'r', '{"ceiling_usd": "0.0019"}', '$0.0018');
select budget_test.says(:'k', 'r', '{"max_steps": 4}', 'at most 3');
select budget_test.says(:'k', 'r', '{"parent_run": 1}', 'parent_run');
select budget_test.says(:'k', 'r', '{"parent_run": "r"}', 'itself');
select budget_test.says(:'k', 'r', '{"parent_run": "gone", "ceiling_usd": 0}', '"gone"');
select budget.start_run(:'free', 'top');
select budget_test.says(:'free', 'r', '{"parent_run": "top"}', 'ceiling_usd');
select budget_test.says(:'k', 'r', '{"parent_run": "top"}', '"top"');
select throws_ok(format('select budget.start_run(%L, %L)', 'nobody', 'r'), 'LB102');
select budget.disable_key('o', 'l');
select throws_ok(format('select budget.start_run(%L, %L)', :'free', 'r'), 'LB102');
select is((select count(*) from budget_internal.runs), 1::bigint);
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
