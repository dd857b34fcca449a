-- budget_internal.chain_budgets: every budget that applies to each key, in chain order; key_chain and key_budgets are made of it.
-- Runs are left out, they come with a request. Accounts are those that the key's models can lead to.
create or replace view budget_internal.chain_budgets as
select
  k.org_id,
  k.key_id,
  row_number() over (partition by k.key_id order by l.place, a.name, b.budget_id) as place,
  b.scope_kind,
  b.scope_name,
  b.budget_name,
  b.period,
  b.enforcement,
  b.models,
  b.limit_usd,
  b.spent_usd,
  b.reserved_usd,
  b.available_usd,
  b.utilization,
  b.starts_at,
  b.ends_at
from budget_internal.keys k
cross join lateral (
  select
    c.scope_id,
    c.place
  from unnest(k.chain) with ordinality c (scope_id, place)
  union all
  select
    r.account_id,
    1000
  from budget_internal.routes r
  where r.org_id in (k.org_id, 0)
    and (k.allowed_models is null or r.model = any(k.allowed_models))
    -- An org with routes of its own for a model uses only those.
    and not (r.org_id <> k.org_id and exists (
      select 1
      from budget_internal.routes o
      where o.org_id = k.org_id and o.model = r.model
    ))
  group by r.account_id
) l
-- Kept apart by the offset, so that it is planned for one scope and not for all of them.
cross join lateral (
  select q.*
  from budget.budget_status q
  where q.scope_id = l.scope_id
  order by q.budget_id
  offset 0
) b
left join budget_internal.scopes a on a.scope_id = l.scope_id and a.kind = 'account';
comment on view budget_internal.chain_budgets is 'Budgets that apply to each key, in chain order, in USD.';
