-- budget.key_budgets: the caller's own chain: every budget that applies to a key, with the one that has least left marked.
-- errors: LB102 unknown, disabled or expired key.
create or replace function budget.key_budgets(p_key text)
returns table (
  scope_kind text, scope_name text, budget_name text, period text, limit_usd numeric, spent_usd numeric,
  reserved_usd numeric, available_usd numeric, utilization numeric, starts_at timestamptz, ends_at timestamptz, binding boolean
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
  with link as (
    select l.scope_id, l.place
    from budget_internal.keys k
    cross join lateral unnest(k.chain) with ordinality l (scope_id, place)
    where k.key_id = budget_internal.usable_key(p_key)
  ), status as (
    select l.place, b.*, row_number() over (
      order by b.available_usd is null, b.available_usd, l.place, b.budget_id
    ) = 1 and b.limit_usd is not null as is_binding
    from link l
    join budget_internal.budgets g on g.scope_id = l.scope_id and g.deleted_at is null
    join budget.budget_status b on b.budget_id = g.budget_id
  )
  select s.scope_kind::text, s.scope_name, s.budget_name, s.period::text, s.limit_usd, s.spent_usd, s.reserved_usd,
    s.available_usd, s.utilization, s.starts_at, s.ends_at, s.is_binding
  from status s
  order by s.place, s.budget_id;
end
$$;
comment on function budget.key_budgets(text) is 'Budgets that apply to a key, in chain order, in USD. LB102 bad key.';
revoke all on function budget.key_budgets(text) from public;
grant execute on function budget.key_budgets(text) to budget_gateway, budget_admin;
