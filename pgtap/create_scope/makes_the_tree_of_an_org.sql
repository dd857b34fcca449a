begin;
select plan(6);
call budget_test.tree();
select is_empty('select * from budget.verify()', 'the books agree');
select results_eq($$
  select s.kind || ' ' || s.name, p.kind || ' ' || p.name
  from budget_internal.scopes s left join budget_internal.scopes p on p.scope_id = s.parent_id
  where s.org_id = (select org_id from budget_internal.scopes where kind = 'org' and name = 'o')
  order by s.scope_id
$$, $$ values ('org o', null), ('project p', 'org o'), ('project q', 'org o'), ('unit a', 'project p'), ('unit b', 'unit a'),
  ('unit c', 'unit b'), ('unit z', 'project p'), ('member m', 'org o'), ('tag t1', 'org o'), ('tag t2', 'org o')
$$, 'each under its parent');
select isnt(budget.create_scope(null, 'account', 'acct'), null, 'an account of the installation');
select is((select org_id from budget_internal.scopes where name = 'acct'), 0::bigint);
select lives_ok($$select budget.create_scope('o', 'tag', 'a')$$, 'one name for several kinds');
select lives_ok($$select budget.create_scope(null, 'org', 'o2'), budget.create_scope('o2', 'project', 'p')$$, 'the same name in another org');
select * from finish();
rollback;
