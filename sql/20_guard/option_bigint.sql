-- budget_internal.option_bigint: a whole positive number from an options object; null when absent; LB101 otherwise.
create or replace function budget_internal.option_bigint(p_options jsonb, p_name text) returns bigint
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v jsonb := p_options -> p_name;
begin
  if v is null or v = 'null' then
    return null;
  end if;
  if jsonb_typeof(v) <> 'number' then
    perform budget_internal.fail('LB101', format('%s must be a whole number above 0, not %s', p_name, v), '');
  end if;
  if v::numeric < 1 or v::numeric > 9223372036854775807 or v::numeric <> trunc(v::numeric) then
    perform budget_internal.fail('LB101', format('%s must be a whole number above 0, not %s', p_name, left(v::text, 40)), '');
  end if;
  return v::bigint;
end
$$;
revoke all on function budget_internal.option_bigint(jsonb, text) from public;
comment on function budget_internal.option_bigint(jsonb, text) is 'Read a positive whole number from options; LB101 names it.';
