-- budget_internal.option_boolean: true or false from an options object; null when absent; LB101 otherwise.
create or replace function budget_internal.option_boolean(p_options jsonb, p_name text) returns boolean
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v jsonb := p_options -> p_name;
begin
  if v is null or v = 'null' then
    return null;
  end if;
  if jsonb_typeof(v) <> 'boolean' then
    perform budget_internal.fail('LB101', format('%s must be true or false, not %s', p_name, left(v::text, 40)), '');
  end if;
  return v::boolean;
end
$$;
revoke all on function budget_internal.option_boolean(jsonb, text) from public;
comment on function budget_internal.option_boolean(jsonb, text) is 'Read true or false from options; LB101 names it.';
