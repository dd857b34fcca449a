begin;
select plan(10);
select budget_test.any_allocation();
select budget_test.at('2026-11-30 12:00:00+00');
call budget_test.tree();
select secret as k from budget.create_key('o', 'p', 'k', '{"unit": "b", "member": "m", "tags": ["t2", "t1"], "allowed_models": ["t-mini"]}') \gset
select budget.set_budget('o', 'org', 'o', 9000, 'year'), budget.set_budget('o', 'project', 'p', 300, 'month'),
  budget.set_budget('o', 'unit', 'a', 49, 'week'), budget.set_budget('o', 'unit', 'b', 6, 'day'),
  budget.set_budget('o', 'member', 'm', 21, '7d'), budget.set_budget('o', 'tag', 't1', 4, 'total'),
  budget.set_budget('o', 'tag', 't2', 3, 'month'), budget.set_budget('o', 'key', 'k', 2, 'day'),
  budget.set_budget('o', 'key', 'k', 60, 'month'), budget.set_budget(null, 'account', 'simulator', 10, 'day'),
  budget.set_budget('o', 'project', 'q', 1, 'day');
update budget_internal.budgets set limit_nano_usd = null where limit_nano_usd = 60000000000;
select is(
  (select string_agg(concat_ws(' ', place, scope_kind, scope_name, period, limit_usd, case when binding then '*' end), ', ' order by place)
    from budget.key_chain where org = 'o' and key_name = 'k'),
  '1 key k day 2 *, 2 key k month, 3 tag t1 total 4, 4 tag t2 month 3, 5 member m 7d 21, 6 unit b day 6, 7 unit a week 49, '
  '8 project p month 300, 9 org o year 9000, 10 account simulator day 10'
);
select budget.settle((budget.reserve(:'k', 't-mini', 1000, 250)).reservation_id, '{"input": 1000, "output": 250}');
select budget.reserve(:'k', 't-mini', 500, 0);
-- $0.002 spent, $0.0005 held.
select results_eq(
  $$select spent_usd, reserved_usd, available_usd, utilization, starts_at, ends_at from budget.key_chain where key_name = 'k' and place = 1$$,
  $$values (0.002, 0.0005, 1.9975, 0.00125, timestamptz '2026-11-30 00:00:00+00', timestamptz '2026-12-01 00:00:00+00')$$
);
-- A soft budget never binds; a checked one does.
update budget_internal.budgets set enforcement = 'soft' where limit_nano_usd = 2000000000;
select is((select scope_name from budget.key_chain where binding), 't2');
update budget_internal.budgets set enforcement = 'check', models = '{t-mini}' where limit_nano_usd = 6000000000;
select is((select row(enforcement, models)::text from budget.key_chain where scope_name = 'b'), '(check,{t-mini})');
update budget_internal.budgets set limit_nano_usd = 1000000000 where enforcement = 'check';
select is((select string_agg(scope_name, ' ') from budget.key_chain where binding), 'b', 'one only');
update budget_internal.budgets set limit_nano_usd = null;
select is((select count(*)::int from budget.key_chain where binding), 0, 'without a limit nothing binds');

-- An account that no model of the key leads to does not apply; nor does one that the org has routes beside.
select budget.set_route('o', 't-mini', 'simulator', 'ours', 't-mini');
select is((select count(*)::int from budget.key_chain where scope_kind = 'account'), 0);
select budget.set_budget(null, 'account', 'ours', 3, 'day');
select is((select scope_name from budget.key_chain where scope_kind = 'account'), 'ours');
select is((select string_agg(distinct scope_kind, ' ') from budget.key_budgets(:'k')), 'key member org project tag unit', 'the key itself does not see accounts');
set local role budget_reader;
select is((select count(*)::int from budget.key_chain), 10, 'readers may look');
reset role;
select * from finish();
rollback;
