-- budget_internal.budget_rate: a limit as nano-USD for 2520 days, by which budgets of different periods are compared: a whole
-- number for every period, as 1, 7, 30, 90 and 360 days all go into 2520. A month counts 30 days, a year twelve of them.
create or replace function budget_internal.budget_rate(p_limit_nano_usd bigint, p_period budget.period_kind) returns numeric
language sql immutable parallel safe
as $$
  select p_limit_nano_usd::pg_catalog.numeric operator(pg_catalog.*) case p_period
    when '7d' then 360 when 'week' then 360 when '30d' then 84 when 'month' then 84 when 'quarter' then 28 when 'year' then 7
    else 2520 end
$$;
revoke all on function budget_internal.budget_rate(bigint, budget.period_kind) from public;
comment on function budget_internal.budget_rate(bigint, budget.period_kind) is 'A limit as nano-USD for 2520 days.';
