-- budget_internal.busy_seconds: when the holds in the way of a call may have ended: from how many there are, how long they
-- have lasted and how long holds of this budget last. Rows are not read one by one: a refusal must stay cheap.
-- With n holds of mean age a and mean length d, what is left of each is taken as spread evenly over 0 to 2 (d - a): the
-- k-th of them ends after 2 (d - a) k / (n + 1).
create or replace function budget_internal.busy_seconds(
  p_slot budget_internal.slot, p_needed_nano_usd bigint, p_held_nano_usd bigint, p_now timestamptz
) returns integer
language plpgsql stable
as $$
declare
  v_now_ms constant bigint := extract(epoch from p_now) * 1000;
  v_holds bigint;
  v_since_ms bigint;
  v_hold_ms bigint;
  v_age_ms bigint;
  v_left_ms bigint;
  v_ending numeric;
begin
  select p.open_holds, p.open_since_ms, p.hold_ms into v_holds, v_since_ms, v_hold_ms
  from budget_internal.periods p
  where p.budget_id = p_slot.budget_id and p.starts_at = p_slot.starts_at;
  if coalesce(v_holds, 0) = 0 or p_held_nano_usd <= 0 then
    -- All that is in the way was granted in this very call.
    return greatest(1, least(60, coalesce(v_hold_ms, 0) / 1000))::integer;
  end if;
  v_age_ms := greatest(0, v_now_ms - v_since_ms / v_holds);
  v_left_ms := case
    when v_hold_ms > v_age_ms then v_hold_ms - v_age_ms
    -- Older than holds use to get, or the first of their kind: as long again as they have lasted.
    else v_age_ms
  end;
  v_ending := least(v_holds, ceil(p_needed_nano_usd::numeric * v_holds / p_held_nano_usd));
  return greatest(1, least(
    60,
    ceil(2 * v_left_ms * greatest(v_ending, 1) / (v_holds + 1) / 1000),
    -- The next period starts without these holds.
    case when isfinite(p_slot.ends_at) then ceil(extract(epoch from p_slot.ends_at - p_now)) end
  ))::integer;
end
$$;
revoke all on function budget_internal.busy_seconds(budget_internal.slot, bigint, bigint, timestamptz) from public;
comment on function budget_internal.busy_seconds(budget_internal.slot, bigint, bigint, timestamptz) is
  'Seconds until the holds in the way of a call may have ended, 1 to 60.';
