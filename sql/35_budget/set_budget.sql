-- budget.set_budget: give a scope a budget, or change the one of that name. Acts on the very next request; what is
-- already counted stays. A change of period, anchor or zone begins a new counter.
-- options: name (the period by default), enforcement (strict), time_zone (UTC), anchor_at (now, for 1d 7d 30d).
-- errors: LB101 unknown scope, bad amount, period, zone or option.
create or replace function budget.set_budget(
  p_org text, p_scope_kind text, p_scope_name text, p_limit_usd numeric, p_period text, p_options jsonb default '{}'
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := budget_internal.clock();
  v_org_id bigint := case when p_scope_kind = 'account' then 0 else budget_internal.find_org(coalesce(p_org, '')) end;
  v_scope_id bigint := budget_internal.find_scope(v_org_id, p_scope_kind, p_scope_name);
  v_limit bigint := budget_internal.nano_usd('limit_usd', p_limit_usd);
  v_name text;
  v_zone text;
  v_anchor timestamptz;
  v_enforcement text;
  v_old budget_internal.budgets;
  v_budget_id bigint;
begin
  perform budget_internal.check_options('options', p_options, array['name', 'enforcement', 'time_zone', 'anchor_at']);
  if p_period is null or p_period <> all (enum_range(null::budget.period_kind)::text[]) then
    perform budget_internal.fail('LB101', format(
      'period must be one of %s, not %s', array_to_string(enum_range(null::budget.period_kind)::text[], ', '),
      coalesce(to_json(left(p_period, 40))::text, 'null')
    ), '');
  end if;
  v_enforcement := coalesce(p_options ->> 'enforcement', 'strict');
  if v_enforcement <> 'strict' then
    perform budget_internal.fail('LB101', format('enforcement must be strict, not %s', to_json(left(v_enforcement, 40))), '');
  end if;
  v_zone := coalesce(p_options ->> 'time_zone', 'UTC');
  -- The view reads every zone file of the server: tens of milliseconds that the default need not cost.
  if v_zone <> 'UTC' and not exists (select 1 from pg_timezone_names z where z.name = v_zone) then
    perform budget_internal.fail(
      'LB101', format('time_zone %s is not an IANA time zone', to_json(left(v_zone, 80))), 'For example: UTC, Europe/Paris.'
    );
  end if;
  begin
    v_anchor := date_trunc('second', (p_options ->> 'anchor_at')::timestamptz);
  exception when invalid_datetime_format or datetime_field_overflow then
    perform budget_internal.fail('LB101', 'anchor_at must be a timestamp, for example 2027-01-31T00:00:00Z', '');
  end;
  if v_anchor not between '1970-01-01 00:00:00+00' and '2200-01-01 00:00:00+00' then
    perform budget_internal.fail('LB101', 'anchor_at must be a moment between 1970 and 2200', '');
  end if;
  v_name := budget_internal.check_name('budget name', coalesce(p_options ->> 'name', p_period));

  -- One admin at a time on a scope's budgets.
  perform 1 from budget_internal.scopes s where s.scope_id = v_scope_id for no key update;
  select b.* into v_old
  from budget_internal.budgets b
  where b.scope_id = v_scope_id and b.name = v_name and b.deleted_at is null;

  if v_old.period = p_period::budget.period_kind and v_old.time_zone = v_zone
     and v_old.anchor_at = coalesce(v_anchor, v_old.anchor_at) then
    update budget_internal.budgets b
    set limit_nano_usd = v_limit, enforcement = v_enforcement::budget.enforcement, changed_at = v_now
    where b.budget_id = v_old.budget_id;
    return v_old.budget_id;
  end if;

  update budget_internal.budgets b set deleted_at = v_now where b.budget_id = v_old.budget_id;
  insert into budget_internal.budgets (
    org_id, scope_id, name, limit_nano_usd, enforcement, period, anchor_at, time_zone, created_at, changed_at
  ) values (
    v_org_id, v_scope_id, v_name, v_limit, v_enforcement::budget.enforcement, p_period::budget.period_kind,
    coalesce(v_anchor, date_trunc('second', v_now)), v_zone, v_now, v_now
  ) returning budget_id into v_budget_id;
  return v_budget_id;
end
$$;
comment on function budget.set_budget(text, text, text, numeric, text, jsonb) is
  'Set or change a budget in USD for a period (1d 7d 30d day week month quarter year total) on a scope; null = no limit, '
  '0 = nothing. Returns the budget id. LB101 on bad input.';
revoke all on function budget.set_budget(text, text, text, numeric, text, jsonb) from public;
grant execute on function budget.set_budget(text, text, text, numeric, text, jsonb) to budget_admin;
