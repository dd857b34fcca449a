-- budget_internal.option_zone: an IANA time zone from an options object; null when absent; LB101 otherwise.
create or replace function budget_internal.option_zone(p_options jsonb, p_name text) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_options ->> p_name is null then
    return null;
  end if;
  if jsonb_typeof(p_options -> p_name) <> 'string' then
    perform budget_internal.fail('LB101', format('%s must be a time zone, not %s', p_name, left(p_options ->> p_name, 40)), '');
  end if;
  return budget_internal.check_time_zone(p_name, p_options ->> p_name);
end
$$;
revoke all on function budget_internal.option_zone(jsonb, text) from public;
comment on function budget_internal.option_zone(jsonb, text) is 'Read a time zone from options; LB101 names it.';
