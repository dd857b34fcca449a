-- budget_internal.add_windows: number and keep the windows that the rates of a new price version have.
-- errors: LB101 two that overlap, more than twenty.
create or replace function budget_internal.add_windows(p_price_id bigint, p_rates jsonb) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  if not jsonb_path_exists(p_rates, '$[*].window ? (@ != null)') then
    return;
  end if;
  if (
    select count(distinct t) from jsonb_array_elements(p_rates) r, budget_internal.window_parts(r.value -> 'window') t
  ) > 20 then
    perform budget_internal.fail('LB101', 'a price can have at most 20 windows', '');
  end if;
  insert into budget_internal.price_windows (price_id, window_no, from_minute, to_minute, weekdays)
  select p_price_id, row_number() over (order by w.from_minute, w.to_minute, w.weekdays), w.from_minute, w.to_minute, w.weekdays
  from (
    select distinct t.from_minute, t.to_minute, t.weekdays
    from jsonb_array_elements(p_rates) r, budget_internal.window_parts(r.value -> 'window') t
  ) w;
  if exists (
    select 1
    from budget_internal.price_windows a
    join budget_internal.price_windows b on b.price_id = a.price_id and b.window_no > a.window_no
      and b.from_minute < a.to_minute and a.from_minute < b.to_minute and a.weekdays && b.weekdays
    where a.price_id = p_price_id
  ) then
    perform budget_internal.fail('LB101', 'windows of a price must not overlap', '');
  end if;
end
$$;
revoke all on function budget_internal.add_windows(bigint, jsonb) from public;
comment on function budget_internal.add_windows(bigint, jsonb) is 'Keep the windows of a price''s rates; LB101 when they overlap.';
