-- budget_internal.record_crossings: the thresholds that a booking has reached, and their alerts, in its transaction.
-- Called under the locks of the periods, after their counters moved. A jump over several tells each of them.
create or replace function budget_internal.record_crossings(
  p_period_ids bigint[], p_added_nano_usd bigint[], p_now timestamptz
) returns integer
language plpgsql volatile
as $$
declare
  v_changed_ids bigint[];
  v_thresholds smallint[];
  v_rearm_ids bigint[];
  v_crosses boolean[];
  v_crossing budget_internal.crossings;
  v_crossed integer := 0;
begin
  select array_agg(c.period_id), array_agg(c.threshold), array_agg(c.rearm_id), array_agg(c.crosses)
  into v_changed_ids, v_thresholds, v_rearm_ids, v_crosses
  from budget_internal.crossing_changes(p_period_ids, p_added_nano_usd, p_now) c;
  if v_changed_ids is null then
    return 0;
  end if;

  with rearmed as (
    update budget_internal.crossings c
    set rearmed_at = p_now
    where c.crossing_id = any (v_rearm_ids)
    returning c.period_id
  )
  update budget_internal.periods p set arming = p.arming + 1 where p.period_id in (select r.period_id from rearmed r);

  for v_crossing in
    insert into budget_internal.crossings (org_id, period_id, threshold, arming, crossed_at, spent_nano_usd, limit_nano_usd)
    select
      p.org_id, p.period_id, n.threshold, p.arming, p_now, p.spent_nano_usd - p.forgiven_nano_usd,
      budget_internal.limit_in_force(b.limit_nano_usd, b.raise_nano_usd, b.raise_until, p.carried_nano_usd, p_now)
    from unnest(v_changed_ids, v_thresholds, v_crosses) n (period_id, threshold, crosses)
    join budget_internal.periods p on p.period_id = n.period_id
    join budget_internal.budgets b on b.budget_id = p.budget_id
    where n.crosses
    order by p.period_id, n.threshold
    -- Nothing here may stop a settlement.
    on conflict do nothing
    returning *
  loop
    perform budget_internal.raise_alert(
      v_crossing.org_id, 'threshold', concat_ws('/', v_crossing.period_id, v_crossing.threshold, v_crossing.arming),
      budget_internal.period_words(v_crossing.period_id, v_crossing.spent_nano_usd, v_crossing.limit_nano_usd)
        || jsonb_build_object('threshold_percent', v_crossing.threshold),
      p_now
    );
    v_crossed := v_crossed + 1;
  end loop;
  return v_crossed;
end
$$;
revoke all on function budget_internal.record_crossings(bigint[], bigint[], timestamptz) from public;
comment on function budget_internal.record_crossings(bigint[], bigint[], timestamptz) is
  'Record the thresholds that periods have newly reached, with their alerts; returns how many.';
