-- budget_internal.period_words: what an alert says of a period: whose budget, its numbers in USD, and from when to when.
create or replace function budget_internal.period_words(p_period_id bigint, p_spent_nano_usd bigint, p_limit_nano_usd bigint)
returns jsonb
language sql stable
as $$
  select jsonb_build_object(
    'org', o.name, 'scope_kind', s.kind, 'scope', s.name, 'budget', b.name, 'period', b.period, 'enforcement', b.enforcement,
    'spent_usd', budget.usd(p_spent_nano_usd), 'limit_usd', budget.usd(p_limit_nano_usd),
    'percent', case when p_limit_nano_usd > 0 then round(p_spent_nano_usd * 100::numeric / p_limit_nano_usd, 1) end,
    'starts_at', to_char(i.starts_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
    'ends_at', to_char(i.ends_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
  )
  from budget_internal.periods p
  cross join lateral (
    select
      case when isfinite(p.starts_at) then p.starts_at end as starts_at, case when isfinite(p.ends_at) then p.ends_at end as ends_at
  ) i
  join budget_internal.budgets b on b.budget_id = p.budget_id
  join budget_internal.scopes s on s.scope_id = b.scope_id
  left join budget_internal.scopes o on o.scope_id = b.org_id and o.scope_id <> 0
  where p.period_id = p_period_id
$$;
revoke all on function budget_internal.period_words(bigint, bigint, bigint) from public;
comment on function budget_internal.period_words(bigint, bigint, bigint) is 'A period, for the payload of an alert.';
