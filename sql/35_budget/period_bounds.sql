-- budget_internal.period_bounds: the period of a budget that holds a moment: [starts_at, ends_at).
-- Fixed lengths count 24-hour days from the anchor. Calendar periods begin at local midnight of the budget's zone; where
-- that midnight is skipped they begin at the first moment after it, where it comes twice at the first of the two.
create or replace function budget_internal.period_bounds(
  p_period budget.period_kind, p_anchor_at timestamptz, p_time_zone text, p_fiscal_month smallint, p_fiscal_day smallint,
  p_at timestamptz,
  out starts_at timestamptz, out ends_at timestamptz
)
language plpgsql stable
as $$
declare
  v_days integer;
  v_unit text;
  v_step interval;
  v_local timestamp;
begin
  if p_period = 'total' then
    starts_at := '-infinity';
    ends_at := 'infinity';
    return;
  end if;

  v_days := case p_period when '1d' then 1 when '7d' then 7 when '30d' then 30 end;
  if v_days is not null then
    -- Hours, not days: a day's length would follow the session's time zone.
    v_step := make_interval(hours => v_days * 24);
    starts_at := p_anchor_at + make_interval(
      hours => v_days * 24 * floor(extract(epoch from p_at - p_anchor_at) / (v_days * 86400))::integer
    );
    ends_at := starts_at + v_step;
    return;
  end if;

  v_unit := p_period::text;
  v_step := case p_period when 'quarter' then interval '3 months' else ('1 ' || v_unit)::interval end;
  v_local := date_trunc(v_unit, p_at at time zone p_time_zone);
  starts_at := budget_internal.first_instant(v_local, p_time_zone);
  -- In the hour that a zone goes back over midnight, the local date can be ahead of the true start.
  if starts_at > p_at then
    v_local := v_local - v_step;
    starts_at := budget_internal.first_instant(v_local, p_time_zone);
  end if;
  ends_at := budget_internal.first_instant(v_local + v_step, p_time_zone);
  if ends_at <= p_at then
    starts_at := ends_at;
    ends_at := budget_internal.first_instant(v_local + v_step + v_step, p_time_zone);
  end if;
end
$$;
revoke all on function budget_internal.period_bounds(budget.period_kind, timestamptz, text, smallint, smallint, timestamptz) from public;
comment on function budget_internal.period_bounds(budget.period_kind, timestamptz, text, smallint, smallint, timestamptz) is
  'Start and end of the period that holds a moment.';
