-- budget_internal.correct_rates: put what ended calls really used in the place of what they were counted as, if their minute
-- is still the current one; else nowhere. A call that was never sent is no request either. Called under the locks of the windows.
create or replace function budget_internal.correct_rates(p_closures budget_internal.closure[]) returns void
language plpgsql volatile
as $$
begin
  update budget_internal.rate_windows w
  set tokens = greatest(0, w.tokens + d.tokens), requests = greatest(0, w.requests - d.requests)
  from (
    select s.scope_id, r.rate_minute_at, sum(u.tokens - r.rate_tokens)::bigint as tokens,
      count(*) filter (where c.outcome = 'unsent' and c.kind = 'released') as requests
    from unnest(p_closures) c
    join budget_internal.reservations r on r.reservation_id = c.reservation_id
    cross join lateral unnest(r.rate_scope_ids) s (scope_id)
    -- Only for calls that count in a window.
    cross join lateral (
      select budget_internal.used_tokens(c.kind, c.usage) as tokens where r.rate_scope_ids <> '{}' offset 0
    ) u
    where u.tokens is not null
    group by s.scope_id, r.rate_minute_at
  ) d
  where w.scope_id = d.scope_id and w.minute_at = d.rate_minute_at;
end
$$;
revoke all on function budget_internal.correct_rates(budget_internal.closure[]) from public;
comment on function budget_internal.correct_rates(budget_internal.closure[]) is 'Correct token windows by real usage.';
