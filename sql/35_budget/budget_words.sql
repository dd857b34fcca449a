-- budget_internal.budget_words: a budget in words: its name, whose it is, its limit, and what that is a day:
-- budget "month" of project "web" (60 USD for month, 2 USD a day).
create or replace function budget_internal.budget_words(
  p_scope_id bigint, p_name text, p_limit_nano_usd bigint, p_period budget.period_kind
) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select format('budget %s of %s %s (%s USD for %s%s)', to_json(p_name), s.kind, to_json(s.name), budget.usd(p_limit_nano_usd),
    p_period, case when p_period not in ('1d', 'day', 'total')
      then ', ' || budget_internal.rate_words(budget_internal.budget_rate(p_limit_nano_usd, p_period), p_period) end)
  from budget_internal.scopes s
  where s.scope_id = p_scope_id
$$;
revoke all on function budget_internal.budget_words(bigint, text, bigint, budget.period_kind) from public;
comment on function budget_internal.budget_words(bigint, text, bigint, budget.period_kind) is 'A budget in words.';
