begin;
select plan(14);
call budget_test.tree();
select budget.create_key('o', 'p', 'k', '{"unit": "c", "member": "m", "tags": ["t1"]}'), budget.create_key('o', 'p', 'k2');
select budget.set_route('o', 'x', 'prov', 'acct');
select budget_test.refused($$select budget.delete_scope(null, 'org', 'o')$$, '2 keys and 1 member and 2 projects and 2 tags and 4 units beneath');
select budget_test.refused($$select budget.delete_scope('o', 'project', 'p')$$, '2 keys and 2 units beneath');
select budget_test.refused($$select budget.delete_scope('o', 'unit', 'a')$$, '1 unit beneath');
select budget_test.refused($$select budget.delete_scope('o', 'unit', 'c')$$, '1 key beneath');
select budget_test.refused($$select budget.delete_scope('o', 'member', 'm')$$, '1 key beneath');
select budget_test.refused($$select budget.delete_scope('o', 'tag', 't1')$$, '1 key carry');
select budget_test.refused($$select budget.delete_scope(null, 'account', 'acct')$$, '1 route lead');
select budget_test.refused($$select budget.delete_scope('o', 'run', 'x')$$, 'kind');
select budget_test.refused($$select budget.delete_scope('o', 'unit', 'nobody')$$, 'nobody');
select is((select count(*) from budget_internal.scopes where deleted_at is not null), 0::bigint);
select budget.delete_scope('o', 'key', 'k'), budget.delete_scope('o', 'key', 'k2'), budget.delete_scope('o', 'unit', 'c'),
  budget.delete_scope('o', 'unit', 'b'), budget.delete_scope('o', 'unit', 'a'), budget.delete_scope('o', 'unit', 'z'),
  budget.delete_scope('o', 'project', 'p'), budget.delete_scope('o', 'project', 'q'), budget.delete_scope('o', 'member', 'm'),
  budget.delete_scope('o', 'tag', 't1'), budget.delete_scope('o', 'tag', 't2'), budget.delete_scope('o', 'org', 'o'),
  budget.delete_scope(null, 'account', 'acct');
select is((select count(*) from budget_internal.scopes where name in ('o', 'p', 'q', 'a', 'b', 'c', 'z', 'm', 't1', 't2', 'k', 'acct')
  and deleted_at is null), 0::bigint, 'from below upward all can go');
select budget_test.refused($$select budget.create_scope('o', 'project', 'p')$$, 'org');
select lives_ok('call budget_test.tree()', 'the names are free again');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
