begin;
select plan(16);
call budget_test.tree();
select secret as k from budget.create_key('o', 'p', 'k', '{"unit": "c", "tags": ["t1", "t2"], "member": "m"}') \gset
create function budget_test.ask(p_key text, p_options jsonb default '{}') returns text language sql as $$
  select coalesce(code, status) || coalesce(': ' || message, '') from budget.reserve(p_key, 't-mini', 1, 1, null, p_options)
$$;
select is(budget_test.ask(:'k'), 'granted');
-- No function leaves such a tree; a hand or a restored backup might. With and without a budget on the chain.
create function budget_test.gone(p_kind text, p_name text, p_gone boolean) returns void language sql as $$
  update budget_internal.scopes set deleted_at = case when p_gone then clock_timestamp() end where kind = p_kind::budget.scope_kind and name = p_name
$$;
select is(format('%s %s', s.kind, s.answer), s.kind || ' budget_config_invalid: the budgets of this key cannot be applied: a project, unit, member or tag above it is gone')
from (
  select c.kind, (select budget_test.ask(:'k') from (select budget_test.gone(c.kind, c.name, true)) g) as answer,
    (select 1 from (select budget_test.gone(c.kind, c.name, false)) g) as back
  from (values ('unit', 'c'), ('unit', 'a'), ('member', 'm'), ('tag', 't2'), ('project', 'p'), ('org', 'o')) c (kind, name)
) s;
select is(budget_test.ask(:'k'), 'granted', 'and it is repaired');
-- Five units.
select budget.create_scope('o', 'unit', 'd', 'unit', 'c');
insert into budget_internal.scopes (org_id, kind, name, parent_id, created_at)
select org_id, 'unit', 'e', scope_id, clock_timestamp() from budget_internal.scopes where kind = 'unit' and name = 'd';
update budget_internal.keys k set unit_id = (select scope_id from budget_internal.scopes where name = 'e');
update budget_internal.keys k set chain = budget_internal.resolve_chain(k.org_id, k.key_id);
select is(budget_test.ask(:'k'), 'budget_config_invalid: the budgets of this key cannot be applied: its units are 5 deep, at most 4 can be');
update budget_internal.keys k set unit_id = (select scope_id from budget_internal.scopes where name = 'd');
update budget_internal.keys k set chain = budget_internal.resolve_chain(k.org_id, k.key_id);
select is(budget_test.ask(:'k'), 'granted', 'four are not too many');
-- Ten budgets and eleven, whatever their enforcement.
select budget.set_budget('o', 'key', 'k', 1, 'day', jsonb_build_object('name', 'b' || i, 'enforcement', 'soft')) from generate_series(1, 9) i;
select budget.set_budget('o', 'org', 'o', 1, 'day', '{"enforcement": "check"}');
select is(budget_test.ask(:'k'), 'granted', 'ten');
select is(budget_test.ask(:'k', '{"run": {"id": "r"}}'), 'budget_config_invalid: the budgets of this key cannot be applied: 11 budgets on its chain, at most 10 can be',
  'a run would be the eleventh');
select budget.set_budget(null, 'account', 'simulator', 1, 'day', '{"models": ["t-pro"]}');
select is(budget_test.ask(:'k'), 'granted', 'one narrowed to another model is not on the chain');
select budget.set_budget(null, 'account', 'simulator', 1, 'day', '{"models": ["t-mini"]}');
select is(budget_test.ask(:'k'), 'budget_config_invalid: the budgets of this key cannot be applied: 11 budgets on its chain, at most 10 can be');
select is((select count(*) from budget_internal.reservations), 5::bigint, 'those that were granted');
select is((select count(*) from budget_internal.runs), 0::bigint);
select * from finish();
rollback;
