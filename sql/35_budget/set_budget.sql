-- budget.set_budget: give a scope a budget, or change the one of that name. Acts on the very next request; what is
-- already counted stays. Another period, anchor, zone or fiscal start is another budget: its counter begins at nothing.
-- options: name (the period by default), enforcement (strict, check, soft), models (null: all), time_zone (UTC), anchor_at (now,
--          for 1d 7d 30d), fiscal_month and fiscal_day (for quarter and year), raise_usd with raise_until (on top of the limit
--          until then), carry_over_cap_usd (the most unused room that goes on into the next period), allocation (each_within,
--          sum_within; of an org, project or unit), thresholds (whole percents of the limit at which settled spend is told,
--          80 and 100 by default; none: []).
--          What is not named stays as the budget of that name has it; null takes it away.
-- locks:   the org.
-- errors:  LB101 unknown scope, bad amount, period, zone or option; LB105 isolation; LB109 against an allocation rule.
-- repeats: the same settings again change nothing and return the same id.
create or replace function budget.set_budget(
  p_org text, p_scope_kind text, p_scope_name text, p_limit_usd numeric, p_period text, p_options jsonb default '{}'
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz;
  v_scope record;
  v_limit bigint := budget_internal.nano_usd('limit_usd', p_limit_usd);
  v_name text;
  v_old budget_internal.budgets;
  v_new budget_internal.budgets;
begin
  perform budget_internal.check_options('options', p_options, array[
    'name', 'enforcement', 'models', 'time_zone', 'anchor_at', 'fiscal_month', 'fiscal_day', 'raise_usd', 'raise_until',
    'carry_over_cap_usd', 'allocation', 'thresholds'
  ]);
  if p_period is null or p_period <> all (enum_range(null::budget.period_kind)::text[]) then
    perform budget_internal.fail('LB101', format(
      'period must be one of %s, not %s', array_to_string(enum_range(null::budget.period_kind)::text[], ', '),
      coalesce(to_json(left(p_period, 40))::text, 'null')
    ), '');
  end if;
  v_name := coalesce(budget_internal.option_name(p_options, 'name'), p_period);

  v_scope := budget_internal.lock_budget_scope(p_org, p_scope_kind, p_scope_name);
  v_now := budget_internal.clock();
  select b.* into v_old
  from budget_internal.budgets b
  where b.scope_id = v_scope.scope_id and b.org_id = v_scope.org_id and b.name = v_name and b.deleted_at is null;
  v_new := budget_internal.budget_settings(v_old, p_scope_kind, v_limit, p_period::budget.period_kind, p_options, v_now);
  v_new.org_id := v_scope.org_id;
  v_new.scope_id := v_scope.scope_id;
  v_new.name := v_name;
  return budget_internal.replace_budget(v_old, v_new, v_now);
end
$$;
comment on function budget.set_budget(text, text, text, numeric, text, jsonb) is
  'Set or change a budget in USD for a period (1d 7d 30d day week month quarter year total) on a scope; null = no limit, '
  '0 = nothing. Options: name, enforcement, models, time_zone, anchor_at, fiscal_month, fiscal_day, raise_usd, raise_until, '
  'carry_over_cap_usd, allocation, thresholds; one that is not given stays as it is, null takes it away. Returns the budget id. LB101 on '
  'bad input, LB109 against an allocation rule.';
revoke all on function budget.set_budget(text, text, text, numeric, text, jsonb) from public;
grant execute on function budget.set_budget(text, text, text, numeric, text, jsonb) to budget_admin;
