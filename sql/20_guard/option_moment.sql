-- budget_internal.option_moment: a moment from an options object, ISO 8601; null when absent; LB101 otherwise.
-- Without an offset it is in the time zone of the session, as everywhere in Postgres.
create or replace function budget_internal.option_moment(p_options jsonb, p_name text) returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v jsonb := p_options -> p_name;
  v_moment timestamptz;
begin
  if v is null or v = 'null' then
    return null;
  end if;
  begin
    -- The pattern keeps out the words that Postgres takes too: now, tomorrow, infinity.
    if jsonb_typeof(v) = 'string' and v #>> '{}' ~ '^\d{4}-\d\d-\d\d([T ][0-9:.]+ *(Z|[+-][0-9:]+)?)?$' then
      v_moment := (v #>> '{}')::timestamptz;
    end if;
  exception when data_exception then
    v_moment := null;
  end;
  if (v_moment between '1970-01-01 00:00:00+00' and '2200-01-01 00:00:00+00') is not true then
    perform budget_internal.fail(
      'LB101', format('%s must be a moment between 1970 and 2200, not %s', p_name, left(v::text, 60)), 'For example 2027-01-31T00:00:00Z.'
    );
  end if;
  return v_moment;
end
$$;
revoke all on function budget_internal.option_moment(jsonb, text) from public;
comment on function budget_internal.option_moment(jsonb, text) is 'Read a moment from options; LB101 names it.';
