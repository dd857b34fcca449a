-- budget.key_chain: every budget that applies to a key, in the order in which they are asked, with the binding one marked: of
-- those that refuse (strict and check) the one with least left. Quick for one key: where org = ... and key_name = ...
create or replace view budget.key_chain as
select
  o.name as org,
  n.name as key_name,
  c.*
from budget_internal.scopes o
join budget_internal.scopes n on n.org_id = o.org_id and n.kind = 'key' and n.deleted_at is null
cross join lateral (
  select
    k.place,
    k.scope_kind,
    k.scope_name,
    k.budget_name,
    k.period,
    k.enforcement,
    k.models,
    k.limit_usd,
    k.spent_usd,
    k.reserved_usd,
    k.available_usd,
    k.utilization,
    k.starts_at,
    k.ends_at,
    k.enforcement <> 'soft' and k.limit_usd is not null and 1 = row_number() over (
      order by k.enforcement = 'soft', k.available_usd, k.place
    ) as binding
  from budget_internal.chain_budgets k
  where k.key_id = n.scope_id
  order by k.place
) c
where o.kind = 'org' and o.deleted_at is null;
comment on view budget.key_chain is
  'Budgets of each key in chain order, in USD. binding: the strict or check budget with least left.';
grant select on budget.key_chain to budget_reader, budget_admin;
