-- budget_internal.first_instant: the first moment at which a zone's clock shows a local time.
create or replace function budget_internal.first_instant(p_local timestamp, p_time_zone text) returns timestamptz
language plpgsql stable
as $$
declare
  v_at timestamptz := p_local at time zone p_time_zone;
  v_back interval;
begin
  if p_time_zone = 'UTC' then
    return v_at;
  end if;
  -- Postgres takes the later of two moments with the same local time; look for the earlier by the shifts zones make.
  foreach v_back in array array['2 hours', '1 hour', '30 minutes']::interval[] loop
    if (v_at - v_back) at time zone p_time_zone = p_local then
      return v_at - v_back;
    end if;
  end loop;
  return v_at;
end
$$;
revoke all on function budget_internal.first_instant(timestamp, text) from public;
comment on function budget_internal.first_instant(timestamp, text) is 'First moment of a local time in a zone.';
