create or replace function budget_internal.refuse_period_delete() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception using errcode = 'LB912', message = format('period counters are authoritative: %s refused', tg_op);
end
$$;
revoke all on function budget_internal.refuse_period_delete() from public;
comment on function budget_internal.refuse_period_delete() is 'Trigger: a period is never deleted; spend already counted stays.';

create or replace trigger periods_are_kept before delete on budget_internal.periods
for each row execute function budget_internal.refuse_period_delete();
create or replace trigger periods_are_not_truncated before truncate on budget_internal.periods
for each statement execute function budget_internal.refuse_period_delete();
create or replace trigger reservations_are_not_truncated before truncate on budget_internal.reservations
for each statement execute function budget_internal.refuse_period_delete();
