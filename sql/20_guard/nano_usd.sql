-- budget_internal.nano_usd: an amount in USD as given by a person, as nano-USD; exact or LB101, never rounded.
create or replace function budget_internal.nano_usd(p_field text, p_usd numeric) returns bigint
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_usd is null then
    return null;
  end if;
  -- NaN sorts above every number, so it fails the upper bound as infinity does.
  if p_usd < 0 or p_usd > 9000000000 then
    perform budget_internal.fail('LB101', format('%s must be between 0 and 9000000000 USD, not %s', p_field, p_usd), '');
  end if;
  if scale(trim_scale(p_usd)) > 9 then
    perform budget_internal.fail('LB101', format('%s has more than nine decimals: %s', p_field, p_usd), '');
  end if;
  return (p_usd * 1000000000)::bigint;
end
$$;
revoke all on function budget_internal.nano_usd(text, numeric) from public;
comment on function budget_internal.nano_usd(text, numeric) is 'USD to nano-USD; LB101 names the field.';
