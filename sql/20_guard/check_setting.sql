-- budget_internal.check_setting: null, or a whole number from 1 to the most that a setting may be; LB101 otherwise.
create or replace function budget_internal.check_setting(p_name text, p_value jsonb, p_most bigint) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_value = 'null' then
    return;
  end if;
  if jsonb_typeof(p_value) = 'number' then
    if p_value::numeric between 1 and p_most and p_value::numeric = trunc(p_value::numeric) then
      return;
    end if;
  end if;
  perform budget_internal.fail(
    'LB101', format('%s must be a whole number from 1 to %s, not %s', p_name, p_most, left(p_value::text, 40)), ''
  );
end
$$;
revoke all on function budget_internal.check_setting(text, jsonb, bigint) from public;
comment on function budget_internal.check_setting(text, jsonb, bigint) is 'Validate a whole number of settings; LB101 names it.';
