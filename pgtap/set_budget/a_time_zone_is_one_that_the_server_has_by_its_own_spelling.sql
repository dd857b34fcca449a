begin;
select plan(4);
create function pg_temp.taken(p_zone text) returns boolean
language plpgsql
as $$
begin
  return budget_internal.check_time_zone('zone', p_zone) = p_zone;
exception when sqlstate 'LB101' then
  return false;
end
$$;
set local time zone 'Asia/Tokyo';
select set_eq(
  'select z.name from pg_timezone_names z where not pg_temp.taken(z.name)',
  $$select z.name from pg_timezone_names z where z.name ~ '^(posix|right)/' or z.name in ('localtime', 'posixrules', 'Factory')
    or upper(z.name) in ('CET', 'EET', 'EST', 'HST', 'MET', 'MST', 'UCT', 'WET', 'ZULU')$$,
  'all names of the server, but for those that say something else elsewhere'
);
select is_empty(
  $$select z.name from pg_timezone_names z where z.name ~ '[a-z]' and (pg_temp.taken(upper(z.name)) and upper(z.name) not in (select name from pg_timezone_names))$$,
  'in no other spelling'
);
select is_empty(
  $$select z from unnest(array['FOO', 'FOO3', 'Mars/Base3', 'MARS/BASE3', 'GMT+5', '5', '-3', '<+03>-3', 'interval ''1 hour''', 'Europe',
    '../../etc/passwd', 'default', 'Z', '', ' UTC', 'utc']) z where pg_temp.taken(z)$$,
  'no rules, abbreviations or paths'
);
select is(current_setting('TimeZone'), 'Asia/Tokyo', 'the session keeps its own');
select * from finish();
rollback;
