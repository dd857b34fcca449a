-- budget_internal.budget_extras: what comes on top of a limit, by the options of set_budget: a raise for a time, and room carried
-- over from the period before.
-- errors: LB101 names the option.
create or replace function budget_internal.budget_extras(p_budget budget_internal.budgets, p_options jsonb, p_now timestamptz)
returns budget_internal.budgets
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_new budget_internal.budgets := p_budget;
  v_raise bigint := budget_internal.option_usd(p_options, 'raise_usd');
  v_until timestamptz := budget_internal.option_moment(p_options, 'raise_until');
  v_carry bigint := budget_internal.option_usd(p_options, 'carry_over_cap_usd');
begin
  if v_new.limit_nano_usd is null and num_nonnulls(v_raise, v_until, v_carry) > 0 then
    perform budget_internal.fail('LB101', format(
      '%s needs a limit_usd', case when v_raise is not null then 'raise_usd' when v_until is not null then 'raise_until'
      else 'carry_over_cap_usd' end
    ), '');
  end if;

  if v_raise is null and v_until is null then
    -- Nothing said: a raise that is over, or has no limit to be added to, goes. One of the two as null takes both away.
    if p_options ?| array['raise_usd', 'raise_until'] or v_new.limit_nano_usd is null or v_new.raise_until <= p_now then
      v_new.raise_nano_usd := null;
      v_new.raise_until := null;
    end if;
  else
    v_new.raise_nano_usd := case when p_options ? 'raise_usd' then v_raise else v_new.raise_nano_usd end;
    v_new.raise_until := case when p_options ? 'raise_until' then v_until else v_new.raise_until end;
    if v_new.raise_nano_usd is null or v_new.raise_until is null then
      perform budget_internal.fail('LB101', 'raise_usd and raise_until belong together: an amount and when it ends', '');
    elsif v_new.raise_nano_usd = 0 then
      perform budget_internal.fail('LB101', 'raise_usd must be above 0', 'Null takes a raise away.');
    elsif v_new.raise_until <= p_now then
      perform budget_internal.fail('LB101', format(
        'raise_until must be in the future, not %s', to_char(v_new.raise_until at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
      ), '');
    end if;
  end if;

  if v_carry is not null and v_new.period = 'total' then
    perform budget_internal.fail('LB101', 'carry_over_cap_usd is for periods that end, not for total', '');
  end if;
  v_new.carry_over_cap_nano_usd := case
    when v_new.limit_nano_usd is null or v_new.period = 'total' then null
    when p_options ? 'carry_over_cap_usd' then v_carry
    else v_new.carry_over_cap_nano_usd
  end;

  if v_new.limit_nano_usd::numeric + coalesce(v_new.raise_nano_usd, 0) + coalesce(v_new.carry_over_cap_nano_usd, 0)
     > 9000000000000000000 then
    perform budget_internal.fail('LB101', 'limit_usd with raise_usd and carry_over_cap_usd must not be above 9000000000 USD', '');
  end if;
  return v_new;
end
$$;
revoke all on function budget_internal.budget_extras(budget_internal.budgets, jsonb, timestamptz) from public;
comment on function budget_internal.budget_extras(budget_internal.budgets, jsonb, timestamptz) is
  'Raise and carry-over by the options of set_budget; LB101 names the option.';
