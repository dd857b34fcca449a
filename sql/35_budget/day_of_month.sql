-- budget_internal.day_of_month: the nth day of a month, or its last where it has fewer.
create or replace function budget_internal.day_of_month(p_month timestamp, p_day smallint) returns timestamp
language sql immutable parallel safe
as $$
  select least(
    p_month operator(pg_catalog.+) pg_catalog.make_interval(days => p_day::pg_catalog.int4 operator(pg_catalog.-) 1),
    p_month operator(pg_catalog.+) interval '1 month' operator(pg_catalog.-) interval '1 day'
  )
$$;
revoke all on function budget_internal.day_of_month(timestamp, smallint) from public;
comment on function budget_internal.day_of_month(timestamp, smallint) is 'A day of a month, clamped to its last.';
