-- budget_internal.period_lock_key: the advisory lock that stands for one period of one budget, kept in its row.
-- Two periods may share a key by chance: they then wait for each other, never the reverse.
create or replace function budget_internal.period_lock_key(p_budget_id bigint, p_starts_at timestamptz) returns bigint
language sql immutable parallel safe
as $$
  -- Seconds, not text: a timestamp's text depends on the session's time zone, and so would the lock.
  select pg_catalog.hashint8extended(
    p_budget_id,
    case when pg_catalog.isfinite(p_starts_at) then extract(epoch from p_starts_at)::pg_catalog.int8 else 0 end
  )
$$;
revoke all on function budget_internal.period_lock_key(bigint, timestamptz) from public;
comment on function budget_internal.period_lock_key(bigint, timestamptz) is 'Advisory lock key of a budget period.';
