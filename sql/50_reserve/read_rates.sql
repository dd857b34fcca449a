-- budget_internal.read_rates: the rate limits of some keys and projects, and their current minute. Read after the locks.
-- A window's minute never goes back, whatever the clock does.
create or replace function budget_internal.read_rates(p_scope_ids bigint[], p_now timestamptz) returns budget_internal.rates
language plpgsql stable
as $$
declare
  v_rates budget_internal.rates;
begin
  if cardinality(p_scope_ids) = 0 then
    v_rates.scope_ids := '{}';
    return v_rates;
  end if;
  select
    p_scope_ids, array_agg(m.minute_at order by s.rate), array_agg(l.requests_per_minute order by s.rate),
    array_agg(l.tokens_per_minute order by s.rate),
    array_agg(case when w.minute_at = m.minute_at then w.requests else 0 end order by s.rate),
    array_agg(case when w.minute_at = m.minute_at then w.tokens else 0 end order by s.rate)
  into v_rates
  from unnest(p_scope_ids) with ordinality s (scope_id, rate)
  left join budget_internal.rate_limits l on l.scope_id = s.scope_id
  left join budget_internal.rate_windows w on w.scope_id = s.scope_id
  cross join lateral (select greatest(date_trunc('minute', p_now), w.minute_at) as minute_at) m;
  return v_rates;
end
$$;
revoke all on function budget_internal.read_rates(bigint[], timestamptz) from public;
comment on function budget_internal.read_rates(bigint[], timestamptz) is 'Rate limits with their current minute.';
