begin;
select plan(17);
call budget_test.tree();
select budget.create_key('o', 'p', 'in_p'), budget.create_key('o', 'p', 'in_a'), budget.create_key('o', 'p', 'in_z'),
  budget.create_key('o', 'q', 'in_q');
select budget.move_key('o', 'in_a', '{"unit": "a", "member": "m"}'), budget.move_key('o', 'in_z', '{"unit": "z"}');
prepare try(text, text, numeric, text, jsonb) as select budget.set_budget('o', $1, $2, $3, $4, $5);
select budget.set_budget('o', 'project', 'p', 10, 'day', '{"allocation": "sum_within"}');

-- 4 + 3 + 3 a day.
select lives_ok($$execute try('key', 'in_p', 4, 'day', '{}')$$);
select lives_ok($$execute try('key', 'in_a', 90, 'month', '{}')$$);
select throws_ok($$execute try('key', 'in_z', 21.000000001, 'week', '{}')$$, 'LB109');
select lives_ok($$execute try('key', 'in_z', 21, 'week', '{}')$$);
select lives_ok($$execute try('key', 'in_q', 100, 'day', '{}')$$, 'another project');

-- A unit with a budget stands for all that is beneath it: 4 + 1 + 3, and again 4 + 3 + 3.
select throws_ok($$execute try('unit', 'a', 2, 'day', '{}')$$, 'LB109', null, 'each_within holds as well');
select lives_ok($$execute try('unit', 'a', 3, 'day', '{}')$$);
select throws_ok($$execute try('unit', 'a', 3.1, 'day', '{}')$$, 'LB109');
-- Its smallest budget counts: 4 + 3 + 3, whatever the other one is.
select lives_ok($$execute try('unit', 'a', 240, 'month', '{}')$$);
-- Without either the key's 3 count again.
select lives_ok($$select budget.delete_budget('o', 'unit', 'a', 'month')$$);
select lives_ok($$select budget.delete_budget('o', 'unit', 'a', 'day')$$);

-- Soft ones and those without a limit are no shares.
select lives_ok($$execute try('unit', 'b', 9, 'day', '{"enforcement": "soft"}')$$);
select lives_ok($$execute try('unit', 'b', null, 'week', '{}')$$);

-- The org has 10 of p and 100 of q; a member's share is no part of that.
select throws_ok($$execute try('org', 'o', 109, 'day', '{"allocation": "sum_within"}')$$, 'LB109');
select lives_ok($$execute try('org', 'o', 110, 'day', '{"allocation": "sum_within"}')$$);
select lives_ok($$execute try('member', 'm', 110, 'day', '{}')$$);
select budget.create_scope('o', 'member', 'n');
select throws_ok($$execute try('member', 'n', 1, 'day', '{}')$$, 'LB109', null, 'members are a sum of their own');
select * from finish();
rollback;
