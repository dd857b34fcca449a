-- budget_internal.price_window: the number of a version's window that is open at a moment; null when none is. Windows of one
-- version never overlap.
create or replace function budget_internal.price_window(p_price_id bigint, p_at timestamptz) returns smallint
language plpgsql stable
as $$
begin
  return (
    select w.window_no
    from budget_internal.price_windows w
    cross join (select p_at at time zone 'UTC' as at) u
    where w.price_id = p_price_id
      and extract(hour from u.at) * 60 + extract(minute from u.at) between w.from_minute and w.to_minute - 1
      and extract(isodow from u.at)::smallint = any (w.weekdays)
  );
end
$$;
revoke all on function budget_internal.price_window(bigint, timestamptz) from public;
comment on function budget_internal.price_window(bigint, timestamptz) is 'Window of a price version at a moment, in UTC; null outside all.';
