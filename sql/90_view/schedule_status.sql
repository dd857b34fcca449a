-- budget.schedule_status: who runs the schedule, and when the daily upkeep was last done.
create or replace view budget.schedule_status as
select
  s.runner,
  s.changed_at,
  s.last_run_at
from budget_internal.schedule s;
comment on view budget.schedule_status is
  'Who runs the schedule, proxy or cron, since when, and when the daily upkeep was last done.';
grant select on budget.schedule_status to budget_reader, budget_admin;
