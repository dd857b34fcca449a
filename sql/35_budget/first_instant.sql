-- budget_internal.first_instant: the first moment at which a zone's clock shows a local time or one after it.
-- Where the time comes twice that is the first of the two, where it is skipped the end of the gap: so the moments of
-- growing local times never go back, and periods between them neither overlap nor leave a hole.
create or replace function budget_internal.first_instant(p_local timestamp, p_time_zone text) returns timestamptz
language plpgsql stable
as $$
declare
  v_at timestamptz := p_local at time zone p_time_zone;
  v_day_before timestamp;
  v_early timestamptz;
  v_between timestamptz;
begin
  if p_time_zone = 'UTC' then
    return v_at;
  end if;
  -- Postgres takes the later of two moments; in a gap it goes on with the offset from before. No zone changes its clock
  -- twice in a day, so the same offset a day earlier means that nothing happened in between.
  v_day_before := (v_at - interval '24 hours') at time zone p_time_zone;
  if v_day_before = p_local - interval '24 hours' and v_at at time zone p_time_zone = p_local then
    return v_at;
  end if;

  -- The same time by the offset of the day before: the first of two, or inside or after a gap.
  v_early := v_at - interval '24 hours' + (p_local - v_day_before);
  if v_early <= v_at and v_early at time zone p_time_zone = p_local then
    return v_early;
  end if;
  if v_at at time zone p_time_zone = p_local then
    return v_at;
  end if;

  -- Skipped: the gap ends at v_at, or before it when it began before the time asked for. Halve down to the second.
  v_early := v_at - ((v_at at time zone p_time_zone) - p_local);
  while v_at - v_early > interval '1 second' loop
    v_between := date_trunc('second', v_early + (v_at - v_early) / 2);
    if v_between at time zone p_time_zone >= p_local then
      v_at := v_between;
    else
      v_early := v_between;
    end if;
  end loop;
  return v_at;
end
$$;
revoke all on function budget_internal.first_instant(timestamp, text) from public;
comment on function budget_internal.first_instant(timestamp, text) is 'First moment of a local time in a zone.';
