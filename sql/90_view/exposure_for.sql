-- budget.exposure_for: what a control that only looks at spend afterwards could overshoot by: it sees spend L seconds late, looks
-- every P seconds, money goes at R USD a second, N calls are in flight, the largest of M USD.
--   overshoot = R x (L + P) + N x M;  largest loss by speed alone = R x (L + P)
-- Strict budgets hold the worst case first, so their overshoot is 0; this is for check and soft ones, and to see what holding saves.
-- errors: LB101 a negative or missing number, unknown org.
create or replace function budget.exposure_for(
  p_lag_seconds numeric, p_poll_seconds numeric, p_rate_usd_per_second numeric, p_org text default null
)
returns table (in_flight bigint, worst_case_usd numeric, held_usd numeric, overshoot_usd numeric, max_loss_usd numeric)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_lag_seconds is null or p_lag_seconds not between 0 and 31536000 then
    perform budget_internal.fail('LB101', 'lag_seconds must be a number from 0 to 31536000');
  elsif p_poll_seconds is null or p_poll_seconds not between 0 and 31536000 then
    perform budget_internal.fail('LB101', 'poll_seconds must be a number from 0 to 31536000');
  elsif p_rate_usd_per_second is null or p_rate_usd_per_second not between 0 and 9000000000 then
    perform budget_internal.fail('LB101', 'rate_usd_per_second must be a number from 0 to 9000000000');
  elsif p_org is not null then
    perform budget_internal.find_org(p_org);
  end if;
  return query
  select
    e.in_flight, e.worst_case_usd, e.held_usd,
    trim_scale(p_rate_usd_per_second * (p_lag_seconds + p_poll_seconds) + e.in_flight * e.worst_case_usd),
    trim_scale(p_rate_usd_per_second * (p_lag_seconds + p_poll_seconds))
  from budget.exposure e
  where e.org is not distinct from p_org;
end
$$;
comment on function budget.exposure_for(numeric, numeric, numeric, text) is
  'Overshoot of a control that sees spend lag_seconds late and looks every poll_seconds while rate USD a second are spent: '
  'R x (L + P) + N x M, with N and M from budget.exposure of an org (null: all). LB101 on bad input.';
revoke all on function budget.exposure_for(numeric, numeric, numeric, text) from public;
grant execute on function budget.exposure_for(numeric, numeric, numeric, text) to budget_reader, budget_admin;
