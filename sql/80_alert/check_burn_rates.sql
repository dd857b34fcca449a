-- budget_internal.check_burn_rates: periods that would end above their limit by burn_rate_percent if they went on as they began:
-- what is settled so far, divided by the share of the period that is over. For the schedule.
-- Told once a period; not before a tenth of it is over, when one call can still look like a trend; not of a period that never
-- ends, of a budget without thresholds, or once the limit is reached, which is told by itself.
create or replace function budget_internal.check_burn_rates() returns integer
language plpgsql volatile
as $$
declare
  v_now timestamptz := budget_internal.clock();
  v_period record;
  v_told integer := 0;
begin
  for v_period in
    select p.org_id, p.period_id, n.spent, n.in_force, n.spent / e.share as projected,
      p.starts_at + (v_now - p.starts_at) * (n.in_force / n.spent)::double precision as exhausted_at
    from budget_internal.periods p
    join budget_internal.budgets b on b.budget_id = p.budget_id and b.deleted_at is null and b.thresholds <> '{}'
    join budget_internal.scopes s on s.scope_id = b.scope_id
    cross join lateral budget_internal.policy(b.org_id, case when s.kind = 'project' then s.scope_id end) y
    cross join lateral (
      select (p.spent_nano_usd - p.forgiven_nano_usd)::numeric as spent, budget_internal.limit_in_force(
        b.limit_nano_usd, b.raise_nano_usd, b.raise_until, p.carried_nano_usd, v_now
      )::numeric as in_force
    ) n
    cross join lateral (
      select extract(epoch from v_now - p.starts_at) / extract(epoch from p.ends_at - p.starts_at) as share
      where isfinite(p.starts_at) and isfinite(p.ends_at)
    ) e
    where p.starts_at <= v_now and p.ends_at > v_now and e.share >= 0.1
      and n.spent > 0 and n.spent < n.in_force
      and n.spent * 100 > n.in_force * (100 + y.burn_rate_percent) * e.share
      and not exists (select 1 from budget_internal.alerts a where a.kind = 'burn_rate' and a.cause = p.period_id::text)
    order by p.period_id
  loop
    v_told := v_told + num_nonnulls(budget_internal.raise_alert(
      v_period.org_id, 'burn_rate', v_period.period_id::text,
      budget_internal.period_words(v_period.period_id, v_period.spent::bigint, v_period.in_force::bigint) || jsonb_build_object(
        'projected_usd', round(budget.usd(v_period.projected), 6),
        'projected_percent', round(v_period.projected * 100 / v_period.in_force, 1),
        'exhausted_at', to_char(v_period.exhausted_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
      ), v_now
    ));
  end loop;
  return v_told;
end
$$;
revoke all on function budget_internal.check_burn_rates() from public;
comment on function budget_internal.check_burn_rates() is
  'Tell of periods that spend faster than their limit allows, once each; returns how many.';
