-- budget.key_budgets: the caller's own chain: every budget that applies to a key, with the one that has least left marked.
-- Not those of accounts: what other orgs spend is not the caller's to see.
-- errors: LB102 unknown, disabled or expired key.
create or replace function budget.key_budgets(p_key text)
returns table (
  scope_kind text, scope_name text, budget_name text, period text, limit_usd numeric, spent_usd numeric,
  reserved_usd numeric, available_usd numeric, utilization numeric, starts_at timestamptz, ends_at timestamptz, binding boolean,
  enforcement text, models text[]
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_key_id bigint := budget_internal.usable_key(p_key);
begin
  return query
  select
    k.scope_kind::text, k.scope_name, k.budget_name, k.period::text, k.limit_usd, k.spent_usd, k.reserved_usd,
    k.available_usd, k.utilization, k.starts_at, k.ends_at,
    k.enforcement <> 'soft' and k.limit_usd is not null and 1 = row_number() over (
      order by k.enforcement = 'soft', k.available_usd, k.place
    ),
    k.enforcement::text, k.models
  from budget_internal.chain_budgets k
  where k.key_id = v_key_id and k.scope_kind <> 'account'
  order by k.place;
end
$$;
comment on function budget.key_budgets(text) is 'Budgets that apply to a key, in chain order, in USD. LB102 bad key.';
revoke all on function budget.key_budgets(text) from public;
grant execute on function budget.key_budgets(text) to budget_gateway, budget_admin;
