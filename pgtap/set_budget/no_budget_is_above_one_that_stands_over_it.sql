begin;
select plan(36);
call budget_test.tree();
select budget.create_key('o', 'p', 'k'), budget.move_key('o', 'k', '{"unit": "c", "member": "m", "tags": ["t1"]}');
prepare try(text, text, numeric, text, jsonb) as select budget.set_budget('o', $1, $2, $3, $4, $5);
-- A budget that is taken, and taken away again; one that is refused.
create function pg_temp.fits(p_kind text, p_name text, p_usd numeric, p_period text, p_options jsonb default '{}') returns text
language plpgsql
as $$
begin
  perform budget.set_budget('o', p_kind, p_name, p_usd, p_period, p_options || '{"name": "try"}');
  perform budget.delete_budget('o', p_kind, p_name, 'try');
  return pass(concat_ws(' ', p_kind, p_name, p_usd, p_period, p_options));
exception when sqlstate 'LB109' then
  return fail(sqlerrm);
end
$$;
create function pg_temp.refused(p_kind text, p_name text, p_usd numeric, p_period text, p_options jsonb default '{}') returns text
language sql
as $$
  select throws_ok(
    format('execute try(%L, %L, %L, %L, %L)', p_kind, p_name, p_usd, p_period, p_options || '{"name": "try"}'), 'LB109', null,
    concat_ws(' ', p_kind, p_name, p_usd, p_period, p_options)
  )
$$;

-- 300 a month is 10 a day, 70 a week, 900 a quarter and 3,600 a year.
select budget.set_budget('o', 'unit', 'a', 300, 'month');
select pg_temp.fits('key', 'k', 10, 'day');
select pg_temp.refused('key', 'k', 10.000000001, 'day');
select pg_temp.fits('key', 'k', 10, '1d');
select pg_temp.refused('key', 'k', 10.000000001, '1d');
select pg_temp.fits('key', 'k', 70, 'week');
select pg_temp.refused('key', 'k', 70.000000001, 'week');
select pg_temp.fits('key', 'k', 70, '7d');
select pg_temp.refused('key', 'k', 70.000000001, '7d');
select pg_temp.fits('key', 'k', 300, 'month');
select pg_temp.refused('key', 'k', 300.000000001, 'month');
select pg_temp.fits('key', 'k', 300, '30d');
select pg_temp.refused('key', 'k', 300.000000001, '30d');
select pg_temp.fits('key', 'k', 900, 'quarter');
select pg_temp.refused('key', 'k', 900.000000001, 'quarter');
select pg_temp.fits('key', 'k', 3600, 'year');
select pg_temp.refused('key', 'k', 3600.000000001, 'year');

-- Over the whole line, not only the next level: a, b, c, k are in p; z stands beside.
select pg_temp.fits('unit', 'b', 300, 'month');
select pg_temp.refused('unit', 'b', 301, 'month');
select pg_temp.fits('project', 'p', 300, 'month');
select pg_temp.refused('project', 'p', 299, 'month');
select pg_temp.fits('org', 'o', 10, 'day');
select pg_temp.refused('org', 'o', 9, 'day');
select pg_temp.fits('unit', 'z', 301, 'month');
select pg_temp.fits('project', 'q', 301, 'month');
select pg_temp.fits('member', 'm', 301, 'month');
select budget.set_budget('o', 'key', 'k', 9, 'day');
select pg_temp.fits('member', 'm', 9, 'day');
select pg_temp.refused('member', 'm', 8, 'day');

-- What is not compared: tags, soft budgets, no limit, total with periods.
select pg_temp.fits('tag', 't1', 5000, 'day');
select pg_temp.fits('key', 'k', 5000, 'day', '{"enforcement": "soft"}');
select pg_temp.fits('org', 'o', 1, 'day', '{"enforcement": "soft"}');
select pg_temp.refused('key', 'k', 5000, 'day', '{"enforcement": "check"}');
select pg_temp.fits('key', 'k', null, 'day');
select pg_temp.fits('key', 'k', 5000, 'total');
select budget.set_budget('o', 'project', 'p', 400, 'total');
select pg_temp.fits('key', 'k', 400, 'total');
select pg_temp.refused('key', 'k', 401, 'total');
-- Above, but only for a time.
select pg_temp.fits('key', 'k', 10, 'day', '{"raise_usd": 90, "raise_until": "2190-01-01T00:00:00Z"}');
select * from finish();
rollback;
