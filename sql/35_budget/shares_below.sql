-- budget_internal.shares_below: what a sum_within budget of a scope is shared out to: the nearest scopes beneath with a budget
-- that is compared with it (is_compared), each with its smallest rate. A scope without one passes the question on to those beneath it.
-- A deleted scope has no budgets. of_members: a key's spend counts in its project and with its member, so an org's members are
-- a sum of their own.
create or replace function budget_internal.shares_below(p_org_id bigint, p_scope_id bigint, p_total boolean, p_models text[])
returns table (of_members boolean, scope_id bigint, rate numeric)
language sql stable
as $$
  with recursive passed as (
    select p_scope_id as scope_id, null::numeric as rate
    union all
    select s.scope_id, m.rate
    from passed p
    join budget_internal.scopes s on s.parent_id = p.scope_id and s.org_id = p_org_id
    cross join lateral (
      select min(budget_internal.budget_rate(b.limit_nano_usd, b.period))
      from budget_internal.budgets b
      where b.scope_id = s.scope_id and budget_internal.is_compared(b, p_total, p_models)
    ) m (rate)
    where p.rate is null and s.kind in ('project', 'unit') and s.deleted_at is null
  ), leaf as (
    select false as of_members, k.key_id as scope_id
    from passed p
    join budget_internal.keys k on k.project_id = p.scope_id and k.org_id = p_org_id
    where p.rate is null and k.unit_id is null
    union all
    select false, k.key_id
    from passed p
    join budget_internal.keys k on k.unit_id = p.scope_id and k.org_id = p_org_id
    where p.rate is null
    union all
    select true, s.scope_id
    from budget_internal.scopes s
    where s.parent_id = p_scope_id and s.org_id = p_org_id and s.kind = 'member'
  )
  select false, p.scope_id, p.rate from passed p where p.rate is not null
  union all
  select l.of_members, l.scope_id, min(budget_internal.budget_rate(b.limit_nano_usd, b.period))
  from leaf l
  join budget_internal.budgets b on b.scope_id = l.scope_id and b.org_id = p_org_id
  where budget_internal.is_compared(b, p_total, p_models)
  group by l.scope_id, l.of_members
$$;
revoke all on function budget_internal.shares_below(bigint, bigint, boolean, text[]) from public;
comment on function budget_internal.shares_below(bigint, bigint, boolean, text[]) is 'Shares of a sum_within budget: scope and rate.';
