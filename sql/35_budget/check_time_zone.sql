-- budget_internal.check_time_zone: a zone by its IANA name as the server's zone files spell it, or LB101.
-- Without the view pg_timezone_names, which reads every zone file: the TimeZone setting takes names and POSIX rules in any
-- case, and says back the file's own spelling, or a rule in capitals. So only a name of capitals and digits can be a rule.
-- Names that `at time zone` would read as an abbreviation are refused: it takes CET for one hour all year.
create or replace function budget_internal.check_time_zone(p_field text, p_zone text) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_session text := current_setting('TimeZone');
  v_spelling text;
begin
  if p_zone in ('UTC', 'GMT') then
    return p_zone;
  end if;
  if length(p_zone) <= 100 and p_zone !~ '^(posix|right)/' and p_zone not in ('localtime', 'posixrules', 'Factory')
     and (p_zone !~ '[0-9<>]' or p_zone ~ '[a-z]' or p_zone in ('EST5EDT', 'CST6CDT', 'MST7MDT', 'PST8PDT', 'GMT0', 'GMT+0', 'GMT-0'))
     and not exists (select 1 from pg_timezone_abbrevs a where a.abbrev = upper(p_zone)) then
    begin
      v_spelling := set_config('TimeZone', p_zone, true);
      perform set_config('TimeZone', v_session, true);
      if v_spelling = p_zone then
        return p_zone;
      end if;
    exception when invalid_parameter_value then
      null;
    end;
  end if;
  perform budget_internal.fail(
    'LB101', format('%s %s is not an IANA time zone', p_field, to_json(left(p_zone, 80))), 'For example: UTC, Europe/Paris.'
  );
  return null;
end
$$;
revoke all on function budget_internal.check_time_zone(text, text) from public;
comment on function budget_internal.check_time_zone(text, text) is 'Validate the name of a time zone; LB101 names the field.';
