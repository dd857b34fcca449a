-- budget_internal.limit_in_force: what a period may take at a moment: the limit, what it is raised by for a time, and
-- the room carried over. Null: no limit. Inlined where it is used.
create or replace function budget_internal.limit_in_force(
  p_limit bigint, p_raise bigint, p_raise_until timestamptz, p_carried bigint, p_at timestamptz
) returns bigint
language sql immutable parallel safe
as $$
  select p_limit + case when p_raise_until > p_at then p_raise else 0 end + coalesce(p_carried, 0)
$$;
revoke all on function budget_internal.limit_in_force(bigint, bigint, timestamptz, bigint, timestamptz) from public;
comment on function budget_internal.limit_in_force(bigint, bigint, timestamptz, bigint, timestamptz) is
  'Limit of a period at a moment, in nano-USD.';
