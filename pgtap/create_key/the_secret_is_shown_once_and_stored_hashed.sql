begin;
select plan(6);
select budget_test.key() as k \gset
select matches((:'k')::text, '^pgb_[0-9a-f]{64}$');
select is((select secret_hash from budget_internal.key_secrets), sha256(convert_to(:'k', 'UTF8')));
select is((select last_four from budget_internal.key_secrets), right(:'k', 4));
select is((select status from budget.reserve('sha256:' || encode(sha256(convert_to(:'k', 'UTF8')), 'hex'), 't-mini', 1, 1)), 'granted');
select throws_like($$select budget.create_key('o', 'p', 'k')$$, '%already%');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
