-- budget.pressure: each budget with a limit against how far through its period it is, as if it went on being spent at the mean
-- rate so far. Above 1 the limit is reached before the period ends. A total has no end, and so no rate.
create or replace view budget.pressure as
with timed as (
  select
    s.*,
    extract(epoch from s.now_at - s.starts_at) as elapsed,
    extract(epoch from s.ends_at - s.starts_at) as whole
  from budget.budget_status s
  where s.limit_usd is not null
)

select
  b.org,
  b.scope_kind,
  b.scope_name,
  b.budget_name,
  b.period,
  b.enforcement,
  b.limit_usd,
  b.spent_usd,
  b.starts_at,
  b.ends_at,
  round(b.elapsed / b.whole, 6) as elapsed_share,
  case when b.limit_usd > 0 then round(b.spent_usd / b.limit_usd, 6) end as spent_share,
  case when b.limit_usd > 0 and b.elapsed > 0 then round(b.spent_usd * b.whole / (b.limit_usd * b.elapsed), 6) end as pressure,
  case when b.elapsed > 0 then trim_scale(round(b.spent_usd * b.whole / b.elapsed, 9)) end as projected_spend_usd,
  case when b.spent_usd > 0 and b.limit_usd * b.elapsed < b.spent_usd * b.whole
    then b.starts_at + make_interval(secs => (b.elapsed * b.limit_usd / b.spent_usd)::double precision) end as exhausts_at
from timed b;
comment on view budget.pressure is
  'Budgets against the time: shares of the period and of the limit, their quotient (pressure), spend projected to the end of '
  'the period, and when the limit is reached at that rate (null: not in this period). In USD.';
grant select on budget.pressure to budget_reader, budget_admin;
