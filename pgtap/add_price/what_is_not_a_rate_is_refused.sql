begin;
select plan(21);
select budget.set_model('x', 'm', null, null);
create function pg_temp.add(p_rates text) returns text
language sql
as $$ select format('select budget.add_price(%L, %L, %L)', 'x', 'm', p_rates) $$;
select budget_test.refused(pg_temp.add('{}'), 'array');
select budget_test.refused(pg_temp.add('[]'), 'at least one');
select budget_test.refused(pg_temp.add('[5]'), 'a rate must be a JSON object');
select budget_test.refused(pg_temp.add('[{"kind": "token", "usd": 1}]'), 'charge kind');
select budget_test.refused(pg_temp.add('[{"kind": "input"}]'), 'usd');
select budget_test.refused(pg_temp.add('[{"kind": "input", "usd": null}]'), 'usd');
select budget_test.refused(pg_temp.add('[{"kind": "input", "usd": -1}]'), 'usd');
select budget_test.refused(pg_temp.add('[{"kind": "input", "usd": "NaN"}]'), 'usd');
select budget_test.refused(pg_temp.add('[{"kind": "input", "usd": 1, "per": 7}]'), 'per');
select budget_test.refused(pg_temp.add('[{"kind": "input", "usd": 1, "variant": "best"}]'), 'variant');
select budget_test.refused(pg_temp.add('[{"kind": "input", "usd": 1, "above_input_tokens": -1}]'), 'above_input_tokens');
select budget_test.refused(pg_temp.add('[{"kind": "input", "usd": 1, "below": 5}]'), 'below');
select budget_test.refused(pg_temp.add('[{"kind": "input", "usd": 1}, {"kind": "input", "usd": 2}]'), 'given twice');
select budget_test.refused(pg_temp.add('[{"kind": "input", "usd": 1, "window": {"from": "25:00", "to": "04:00"}}]'), 'times of day');
select budget_test.refused(pg_temp.add('[{"kind": "input", "usd": 1, "window": {"from": "01:00"}}]'), 'times of day');
select budget_test.refused(pg_temp.add('[{"kind": "input", "usd": 1, "window": {"from": "01:00", "to": "01:00"}}]'), 'differ');
select budget_test.refused(pg_temp.add('[{"kind": "input", "usd": 1, "window": {"from": "01:00", "to": "02:00", "weekdays": [0]}}]'), 'weekdays');
select budget_test.refused(pg_temp.add('[{"kind": "input", "usd": 1, "window": {"from": "01:00", "to": "02:00", "weekdays": []}}]'), 'weekdays');
select budget_test.refused(pg_temp.add('[
  {"kind": "input", "usd": 1, "window": {"from": "23:00", "to": "01:00", "weekdays": [1]}},
  {"kind": "output", "usd": 1, "window": {"from": "00:30", "to": "02:00", "weekdays": [2]}}
]'), 'overlap');
select budget_test.refused($$select budget.add_price('x', 'nobody', '[{"kind": "input", "usd": 1}]')$$, 'nobody');
select is_empty($$select * from budget_internal.prices where provider = 'x'$$, 'nothing of it stays');
select * from finish();
rollback;
