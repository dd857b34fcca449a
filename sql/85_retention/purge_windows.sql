-- budget_internal.purge_windows: counted refusals past their time, rate windows of a day ago, and ids of answers in the background,
-- a bounded number. Of a window that somebody has locked the next run takes care.
create or replace function budget_internal.purge_windows(p_limit integer) returns bigint
language plpgsql volatile
as $$
declare
  v_now constant timestamptz := budget_internal.clock();
  v_refusals bigint;
  v_windows bigint;
  v_answers bigint;
begin
  delete from budget_internal.refusal_minutes m
  where m.ctid = any (array(
    select r.ctid
    from budget_internal.refusal_minutes r
    where r.minute_at < v_now - make_interval(days => (
      select p.refusal_retention_days from budget_internal.policies p where p.scope_id = 0
    ))
    limit p_limit
  ));
  get diagnostics v_refusals = row_count;
  delete from budget_internal.rate_windows w
  where w.ctid = any (array(
    select r.ctid from budget_internal.rate_windows r where r.minute_at < v_now - interval '1 day' limit p_limit for update skip locked
  ));
  get diagnostics v_windows = row_count;
  delete from budget_internal.background_answers a
  where a.ctid = any (array(
    select k.ctid from budget_internal.background_answers k where k.kept_at < v_now - interval '30 days' limit p_limit
  ));
  get diagnostics v_answers = row_count;
  return greatest(v_refusals, v_windows, v_answers);
end
$$;
revoke all on function budget_internal.purge_windows(integer) from public;
comment on function budget_internal.purge_windows(integer) is
  'Delete old refusal counts, rate windows and ids of answers; returns the largest number.';
