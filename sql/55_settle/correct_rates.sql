-- budget_internal.correct_rates: put what ended calls really used in the place of what they were counted as, if their minute
-- is still the current one; else nowhere. A call that was never sent is no request either.
create or replace function budget_internal.correct_rates(p_closures budget_internal.closure[]) returns void
language plpgsql volatile
as $$
begin
  if not exists (
    select 1 from unnest(p_closures) c
    join budget_internal.reservations r on r.reservation_id = c.reservation_id
    where r.rate_scope_ids <> '{}'
  ) then
    return;
  end if;
  with used as (
    select r.rate_scope_ids, r.rate_minute_at, r.rate_tokens, c.outcome = 'unsent' and c.kind = 'released' as unsent,
      case
        when c.kind = 'released' then 0
        when c.kind = 'settled' then (
          select sum(u.value::numeric)
          from jsonb_each_text(c.usage) u
          join budget_internal.charge_kinds k on k.kind = u.key and k.direction in ('input', 'output')
        )
      end as tokens
    from unnest(p_closures) c
    join budget_internal.reservations r on r.reservation_id = c.reservation_id
    where r.rate_scope_ids <> '{}'
  ), delta as (
    select s.scope_id, u.rate_minute_at, sum(u.tokens - u.rate_tokens) as tokens, count(*) filter (where u.unsent) as requests
    from used u
    cross join lateral unnest(u.rate_scope_ids) s (scope_id)
    where u.tokens is not null
    group by s.scope_id, u.rate_minute_at
  ), locked as materialized (
    -- In one order: two settlements never wait for each other.
    select w.scope_id, d.tokens, d.requests
    from budget_internal.rate_windows w
    join delta d on d.scope_id = w.scope_id and d.rate_minute_at = w.minute_at
    order by w.scope_id
    for update of w
  )
  update budget_internal.rate_windows w
  set tokens = greatest(0, w.tokens + l.tokens)::bigint, requests = greatest(0, w.requests - l.requests)
  from locked l
  where w.scope_id = l.scope_id;
end
$$;
revoke all on function budget_internal.correct_rates(budget_internal.closure[]) from public;
comment on function budget_internal.correct_rates(budget_internal.closure[]) is 'Correct token windows by real usage.';
