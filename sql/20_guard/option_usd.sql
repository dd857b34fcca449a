-- budget_internal.option_usd: an amount in USD from an options object, a JSON number or a decimal string; LB101 otherwise.
create or replace function budget_internal.option_usd(p_options jsonb, p_name text) returns bigint
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v text := p_options ->> p_name;
begin
  if v is null then
    return null;
  end if;
  if jsonb_typeof(p_options -> p_name) not in ('number', 'string') or v !~ '^[0-9]{1,20}(\.[0-9]{1,30})?$' then
    perform budget_internal.fail('LB101', format('%s must be an amount in USD, not %s', p_name, left(v, 40)), '');
  end if;
  return budget_internal.nano_usd(p_name, v::numeric);
end
$$;
revoke all on function budget_internal.option_usd(jsonb, text) from public;
comment on function budget_internal.option_usd(jsonb, text) is 'Read an amount in USD from options as nano-USD; LB101 names it.';
