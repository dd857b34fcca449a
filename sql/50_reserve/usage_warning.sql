-- budget_internal.usage_warning: the words for a budget that is nearly used up: "project shop/daily: 85% of 10 USD used".
-- p_used: the share of its limit that is spent, null where the limit is 0.
create or replace function budget_internal.usage_warning(p_period_id bigint, p_limit_nano_usd bigint, p_used numeric) returns text
language plpgsql stable
as $$
begin
  return (
    select format(
      '%s %s/%s: %s of %s USD used', s.kind, s.name, b.name, coalesce(floor(p_used * 100) || '%', 'all'), budget.usd(p_limit_nano_usd)
    )
    from budget_internal.periods p
    join budget_internal.budgets b on b.budget_id = p.budget_id
    join budget_internal.scopes s on s.scope_id = b.scope_id
    where p.period_id = p_period_id
  );
end
$$;
revoke all on function budget_internal.usage_warning(bigint, bigint, numeric) from public;
comment on function budget_internal.usage_warning(bigint, bigint, numeric) is 'Warning of a budget that is nearly used up.';
