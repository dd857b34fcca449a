-- budget_internal.budget_settings: the settings that a call of set_budget asks for: what its options name, over those of the
-- budget there is, over the defaults. An option given as null takes away. Where the new limit or period leaves no meaning to
-- a setting that would be kept (a raise without a limit, a fiscal start of a month), it goes too.
-- errors: LB101 names the option.
create or replace function budget_internal.budget_settings(
  p_old budget_internal.budgets, p_scope_kind text, p_limit_nano_usd bigint, p_period budget.period_kind, p_options jsonb,
  p_now timestamptz
) returns budget_internal.budgets
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_new budget_internal.budgets := p_old;
  v_unpriced text;
begin
  v_new.limit_nano_usd := p_limit_nano_usd;
  v_new.enforcement := coalesce(case when p_options ? 'enforcement'
    then budget_internal.option_word(p_options, 'enforcement', enum_range(null::budget.enforcement)::text[])
    else p_old.enforcement::text end, 'strict')::budget.enforcement;

  -- What decides where periods begin and end.
  v_new.period := p_period;
  v_new.time_zone := coalesce(case when p_options ? 'time_zone' then budget_internal.option_zone(p_options, 'time_zone')
    else p_old.time_zone end, 'UTC');
  v_new.anchor_at := coalesce(
    date_trunc('second', budget_internal.option_moment(p_options, 'anchor_at')),
    case when p_old.period = p_period then p_old.anchor_at end, date_trunc('second', p_now)
  );
  if p_options ->> 'anchor_at' is not null and p_period not in ('1d', '7d', '30d') then
    perform budget_internal.fail('LB101', format('anchor_at is for the periods 1d, 7d and 30d, not for %s', p_period), '');
  end if;
  v_new.fiscal_month := coalesce(budget_internal.option_fiscal(p_options, 'fiscal_month', 12, p_period, p_old.fiscal_month), 1);
  v_new.fiscal_day := coalesce(budget_internal.option_fiscal(p_options, 'fiscal_day', 31, p_period, p_old.fiscal_day), 1);

  if p_options ? 'models' then
    v_new.models := array(select m from unnest(budget_internal.option_names(p_options, 'models', 100)) m order by m collate "C");
    if p_options -> 'models' = '[]' then
      perform budget_internal.fail('LB101', 'models must name at least one model', 'Null is for all models.');
    elsif v_new.models = '{}' then
      v_new.models := null;
    end if;
    select m into v_unpriced
    from unnest(v_new.models) m
    where not exists (select 1 from budget_internal.models k where k.model = m)
    limit 1;
    if v_unpriced is not null then
      perform budget_internal.fail(
        'LB101', format('models has a name that no provider''s model has: %s', to_json(v_unpriced)),
        'A budget is narrowed by the names that models are priced under, not by those that clients type.'
      );
    end if;
  end if;

  v_new.allocation := coalesce(case when p_options ? 'allocation'
    then budget_internal.option_word(p_options, 'allocation', array['each_within', 'sum_within'])
    else p_old.allocation end, 'each_within');
  if p_options ->> 'allocation' is not null and p_scope_kind not in ('org', 'project', 'unit') then
    perform budget_internal.fail(
      'LB101', format('allocation is for budgets of an org, project or unit, not of a %s', p_scope_kind), ''
    );
  end if;
  v_new.thresholds := coalesce(case when p_options ? 'thresholds'
    then budget_internal.option_percents(p_options, 'thresholds') else p_old.thresholds end, '{80,100}');
  return budget_internal.budget_extras(v_new, p_options, p_now);
end
$$;
revoke all on function budget_internal.budget_settings(budget_internal.budgets, text, bigint, budget.period_kind, jsonb, timestamptz)
from public;
comment on function budget_internal.budget_settings(
  budget_internal.budgets, text, bigint, budget.period_kind, jsonb, timestamptz
) is 'Options of set_budget over the settings there are; LB101 names the option.';
