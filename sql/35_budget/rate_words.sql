-- budget_internal.rate_words: a rate of budget_rate as people read it: "2.5 USD a day", of a total "2.5 USD".
create or replace function budget_internal.rate_words(p_rate numeric, p_period budget.period_kind) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select trim_scale(round(p_rate / 2520 / 1000000000, 9)) || case p_period when 'total' then ' USD' else ' USD a day' end
$$;
revoke all on function budget_internal.rate_words(numeric, budget.period_kind) from public;
comment on function budget_internal.rate_words(numeric, budget.period_kind) is 'A rate in words.';
