begin;
select plan(11);
select budget_test.at('2027-01-15T12:00:00Z');
select budget_test.key(1) as k1 \gset
select budget.rotate_key('o', 'k', '1 hour') as k2 \gset
select isnt(:'k2'::text, :'k1'::text);
select is((select status from budget.reserve(:'k1', 't-mini', 1, 1)), 'granted', 'the old one in its grace');
select is((select status from budget.reserve(:'k2', 't-mini', 1, 1)), 'granted', 'the new one');
select budget_test.refused($$select budget.rotate_key('o', 'k', '1 hour')$$, 'two secrets');
select budget_test.at('2027-01-15T13:00:00Z');
select is((select code from budget.reserve(:'k1', 't-mini', 1, 1)), 'key_expired');
select is((select status from budget.reserve(:'k2', 't-mini', 1, 1)), 'granted');
select budget.rotate_key('o', 'k', '1 hour') as k3 \gset
select budget.rotate_key('o', 'k') as k4 \gset
select is((select code from budget.reserve(:'k2', 't-mini', 1, 1)), 'key_expired', 'a grace of 0 ends all others at once');
select is((select code from budget.reserve(:'k3', 't-mini', 1, 1)), 'key_expired');
select is((select status from budget.reserve(:'k4', 't-mini', 1, 1)), 'granted');
select is((select count(*) from budget_internal.key_secrets where secret_hash = sha256(convert_to(:'k4', 'UTF8'))), 1::bigint, 'only the hash is kept');
select is_empty('select * from budget.verify()', 'the books agree');
select * from finish();
rollback;
