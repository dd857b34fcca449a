-- budget_internal.crossing_changes: what is to be told of some periods, and what is armed again. Changes nothing.
--   rearm_id  told before, under a lower limit or before a reset, and what was spent until now does not reach it any more
--   crosses   reached by what is settled now, and not told yet, or armed again
-- p_added_nano_usd: what the caller has just added to the spend of each period, by place. What was spent before shows whether a
-- limit was raised above it meanwhile, even where the same settlement passes it again: so who changes a budget need not wait for
-- the calls on it, nor they for him.
create or replace function budget_internal.crossing_changes(p_period_ids bigint[], p_added_nano_usd bigint[], p_now timestamptz)
returns table (period_id bigint, threshold smallint, rearm_id bigint, crosses boolean)
language sql stable
as $$
  select n.period_id, t.threshold, case when r.rearmed then c.crossing_id end, r.reached and (c.crossing_id is null or r.rearmed)
  from unnest(p_period_ids, p_added_nano_usd) i (period_id, added)
  cross join lateral (
    select p.period_id, p.reset_at, b.thresholds, b.deleted_at, p.spent_nano_usd - p.forgiven_nano_usd as spent, budget_internal.limit_in_force(
      b.limit_nano_usd, b.raise_nano_usd, b.raise_until, p.carried_nano_usd, p_now
    )::numeric as in_force
    from budget_internal.periods p
    -- A few rows by their keys, whatever the planner believes of these tables.
    cross join lateral (select * from budget_internal.budgets b where b.budget_id = p.budget_id offset 0) b
    where p.period_id = i.period_id
    offset 0
  ) n
  cross join lateral unnest(n.thresholds) t (threshold)
  left join budget_internal.crossings c on c.period_id = n.period_id and c.threshold = t.threshold and c.rearmed_at is null
  cross join lateral (
    select
      -- A limit of 0 is reached by the first that is spent.
      n.spent > 0 and n.spent * 100::numeric >= n.in_force * t.threshold as reached,
      c.crossing_id is not null and (n.in_force > c.limit_nano_usd or n.reset_at > c.crossed_at)
        and (n.spent - i.added) * 100::numeric < n.in_force * t.threshold as rearmed
  ) r
  -- A budget that is deleted tells nothing more.
  where n.deleted_at is null and (r.rearmed or (r.reached and c.crossing_id is null))
$$;
revoke all on function budget_internal.crossing_changes(bigint[], bigint[], timestamptz) from public;
comment on function budget_internal.crossing_changes(bigint[], bigint[], timestamptz) is
  'Thresholds of periods that are newly reached, or armed again.';
