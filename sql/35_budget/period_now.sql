-- budget_internal.period_now: the period of a budget at this moment, for views. A view calls its functions as the reader, who
-- may not look into this schema: so this one runs as its owner. Reserve calls period_bounds itself.
create or replace function budget_internal.period_now(
  p_period budget.period_kind, p_anchor_at timestamptz, p_time_zone text, p_fiscal_month smallint, p_fiscal_day smallint,
  out now_at timestamptz, out starts_at timestamptz, out ends_at timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  now_at := budget_internal.clock();
  select t.starts_at, t.ends_at into period_now.starts_at, period_now.ends_at
  from budget_internal.period_bounds(p_period, p_anchor_at, p_time_zone, p_fiscal_month, p_fiscal_day, now_at) t;
end
$$;
revoke all on function budget_internal.period_now(budget.period_kind, timestamptz, text, smallint, smallint) from public;
comment on function budget_internal.period_now(budget.period_kind, timestamptz, text, smallint, smallint) is
  'The moment, and the start and end of the period that holds it.';
grant execute on function budget_internal.period_now(budget.period_kind, timestamptz, text, smallint, smallint)
to budget_reader, budget_admin;
