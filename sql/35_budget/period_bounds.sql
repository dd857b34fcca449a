-- budget_internal.period_bounds: the period of a budget that holds a moment: [starts_at, ends_at).
-- Fixed lengths count 24-hour days from the anchor. Calendar periods begin when the budget's zone first shows the local
-- midnight (first_instant), quarters and years with those of the fiscal year, whose start day is the last of its month
-- where that month is too short. A moment that a clock shows again after going back over midnight stays in the new period.
create or replace function budget_internal.period_bounds(
  p_period budget.period_kind, p_anchor_at timestamptz, p_time_zone text, p_fiscal_month smallint, p_fiscal_day smallint,
  p_at timestamptz, out starts_at timestamptz, out ends_at timestamptz
)
language plpgsql stable
as $$
declare
  v_hours integer;
  v_step interval;
  v_local timestamp;
  v_month timestamp;
  v_start timestamp;
  v_end timestamp;
begin
  if p_period = 'total' then
    starts_at := '-infinity';
    ends_at := 'infinity';
    return;
  end if;

  -- Hours, not days: a day's length would follow the session's time zone.
  v_hours := case p_period when '1d' then 24 when '7d' then 168 when '30d' then 720 end;
  if v_hours is not null then
    starts_at := p_anchor_at + make_interval(
      hours => v_hours * floor(extract(epoch from p_at - p_anchor_at) / (v_hours * 3600))::integer
    );
    ends_at := starts_at + make_interval(hours => v_hours);
    return;
  end if;

  v_step := case p_period
    when 'day' then interval '1 day' when 'week' then interval '7 days' when 'month' then interval '1 month'
    when 'quarter' then interval '3 months' else interval '12 months' end;
  v_local := p_at at time zone p_time_zone;
  if (p_fiscal_month = 1 and p_fiscal_day = 1) or p_period not in ('quarter', 'year') then
    v_start := date_trunc(p_period::text, v_local);
    v_end := v_start + v_step;
    if p_time_zone = 'UTC' then
      starts_at := v_start at time zone 'UTC';
      ends_at := v_end at time zone 'UTC';
      return;
    end if;
  else
    v_month := date_trunc('month', v_local) - make_interval(
      months => (extract(month from v_local)::integer + 12 - p_fiscal_month) % case p_period when 'quarter' then 3 else 12 end
    );
    if budget_internal.day_of_month(v_month, p_fiscal_day) > v_local then
      v_month := v_month - v_step;
    end if;
    v_start := budget_internal.day_of_month(v_month, p_fiscal_day);
    v_end := budget_internal.day_of_month(v_month + v_step, p_fiscal_day);
  end if;

  ends_at := budget_internal.first_instant(v_end, p_time_zone);
  if ends_at > p_at then
    starts_at := budget_internal.first_instant(v_start, p_time_zone);
  else
    -- The clock has shown the end before, and went back over it.
    starts_at := ends_at;
    v_end := case when v_month is null then v_end + v_step
      else budget_internal.day_of_month(v_month + v_step + v_step, p_fiscal_day) end;
    ends_at := budget_internal.first_instant(v_end, p_time_zone);
  end if;
end
$$;
revoke all on function budget_internal.period_bounds(budget.period_kind, timestamptz, text, smallint, smallint, timestamptz)
from public;
comment on function budget_internal.period_bounds(budget.period_kind, timestamptz, text, smallint, smallint, timestamptz) is
  'Start and end of the period that holds a moment.';
