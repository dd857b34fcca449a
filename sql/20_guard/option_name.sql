-- budget_internal.option_name: a name from an options object; null when absent; LB101 otherwise.
create or replace function budget_internal.option_name(p_options jsonb, p_name text) returns text
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v jsonb := p_options -> p_name;
begin
  if v is null or v = 'null' then
    return null;
  end if;
  if jsonb_typeof(v) <> 'string' then
    perform budget_internal.fail('LB101', format('%s must be a name, not %s', p_name, left(v::text, 40)), '');
  end if;
  return budget_internal.check_name(p_name, v #>> '{}');
end
$$;
revoke all on function budget_internal.option_name(jsonb, text) from public;
comment on function budget_internal.option_name(jsonb, text) is 'Read a name from options; LB101 names the option.';
