-- budget_internal.window_parts: a window of add_price as minutes of the day and weekdays; one that passes midnight is two. Its
-- weekdays are those on which it begins, so the part after midnight is on the days after them. '{}' for no window: no row.
create or replace function budget_internal.window_parts(
  p_window jsonb, out part smallint, out from_minute smallint, out to_minute smallint, out weekdays smallint[]
) returns setof record
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_from constant smallint := split_part(p_window ->> 'from', ':', 1)::integer * 60 + split_part(p_window ->> 'from', ':', 2)::integer;
  v_to constant smallint := split_part(p_window ->> 'to', ':', 1)::integer * 60 + split_part(p_window ->> 'to', ':', 2)::integer;
begin
  if v_from is null then
    return;
  end if;
  part := 1;
  from_minute := v_from;
  to_minute := case when v_to > v_from then v_to else 1440 end;
  select array_agg(distinct d.value::text::smallint order by d.value::text::smallint) into weekdays
  from jsonb_array_elements(coalesce(nullif(p_window -> 'weekdays', 'null'), '[1, 2, 3, 4, 5, 6, 7]')) d;
  return next;
  if v_to < v_from and v_to > 0 then
    part := 2;
    from_minute := 0;
    to_minute := v_to;
    weekdays := array(select (d % 7 + 1)::smallint from unnest(weekdays) d order by 1);
    return next;
  end if;
end
$$;
revoke all on function budget_internal.window_parts(jsonb) from public;
comment on function budget_internal.window_parts(jsonb) is 'Minutes of the day and weekdays of a window, in UTC.';
