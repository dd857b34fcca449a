-- budget_internal.retire_entries: put the sums of a ledger partition into the counters of what was dropped.
-- Rows in one order, those of periods that run last: calls on them wait the shortest.
create or replace function budget_internal.retire_entries(p_partition text) returns void
language plpgsql volatile
as $$
begin
  execute format($sql$
    with gone as (
      select i.period_id, sum(l.amount_nano_usd) as amount
      from budget_internal.%I l
      cross join lateral unnest(l.period_ids) i (period_id)
      group by i.period_id
    ), locked as materialized (
      select p.period_id, g.amount
      from budget_internal.periods p
      join gone g on g.period_id = p.period_id and g.amount <> 0
      order by p.ends_at, p.period_id
      for update of p
    )
    update budget_internal.periods p
    set retired_nano_usd = p.retired_nano_usd + l.amount
    from locked l
    where p.period_id = l.period_id
  $sql$, p_partition);
  execute format($sql$
    with gone as (
      select s.scope_id as unit_id, date_trunc('month', l.reserved_at at time zone 'UTC')::date as month_on, sum(l.amount_nano_usd) as amount
      from budget_internal.%I l
      join budget_internal.scopes s on s.scope_id = any (l.scope_ids) and s.kind = 'unit'
      group by s.scope_id, month_on
    ), locked as materialized (
      select u.unit_id, u.month_on, g.amount
      from budget_internal.unit_months u
      join gone g on g.unit_id = u.unit_id and g.month_on = u.month_on and g.amount <> 0
      order by u.unit_id, u.month_on
      for update of u
    )
    update budget_internal.unit_months u
    set retired_nano_usd = u.retired_nano_usd + l.amount
    from locked l
    where u.unit_id = l.unit_id and u.month_on = l.month_on
  $sql$, p_partition);
end
$$;
revoke all on function budget_internal.retire_entries(text) from public;
comment on function budget_internal.retire_entries(text) is 'Count a ledger partition that is about to be dropped as retired.';
