-- budget_internal.shares_below: what a sum_within budget is shared out to: the nearest scopes beneath with a budget that is
-- compared with it, each with its smallest rate. A scope without one passes the question on to those beneath it.
-- A deleted scope has no budgets. side: a key's spend counts in its project and with its member, so an org's members are a sum of their own.
create or replace function budget_internal.shares_below(p_budget budget_internal.budgets)
returns table (side text, scope_id bigint, rate numeric)
language sql stable
as $$
  with recursive passed as (
    select p_budget.scope_id as scope_id, null::numeric as rate
    union all
    select s.scope_id, m.rate
    from passed p
    join budget_internal.scopes s on s.parent_id = p.scope_id and s.org_id = p_budget.org_id
    cross join lateral (
      select min(budget_internal.budget_rate(b.limit_nano_usd, b.period))
      from budget_internal.budgets b
      where b.scope_id = s.scope_id and budget_internal.is_compared(b, p_budget)
    ) m (rate)
    where p.rate is null and s.kind in ('project', 'unit') and s.deleted_at is null
  ), leaf as (
    select 'below' as side, k.key_id as scope_id
    from passed p
    join budget_internal.keys k on k.project_id = p.scope_id and k.org_id = p_budget.org_id
    where p.rate is null and k.unit_id is null
    union all
    select 'below', k.key_id
    from passed p
    join budget_internal.keys k on k.unit_id = p.scope_id and k.org_id = p_budget.org_id
    where p.rate is null
    union all
    select 'members', s.scope_id
    from budget_internal.scopes s
    where s.parent_id = p_budget.scope_id and s.org_id = p_budget.org_id and s.kind = 'member'
  )
  select 'below', p.scope_id, p.rate from passed p where p.rate is not null
  union all
  select l.side, l.scope_id, min(budget_internal.budget_rate(b.limit_nano_usd, b.period))
  from leaf l
  join budget_internal.budgets b on b.scope_id = l.scope_id and b.org_id = p_budget.org_id
  where budget_internal.is_compared(b, p_budget)
  group by l.side, l.scope_id
$$;
revoke all on function budget_internal.shares_below(budget_internal.budgets) from public;
comment on function budget_internal.shares_below(budget_internal.budgets) is 'Shares of a sum_within budget: scope and rate.';
