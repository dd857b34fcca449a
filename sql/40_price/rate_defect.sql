-- budget_internal.rate_defect: why a rate of add_price cannot be taken; null when it can.
create or replace function budget_internal.rate_defect(p_rate jsonb) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_unknown text;
  v_window jsonb := p_rate -> 'window';
begin
  if jsonb_typeof(p_rate) <> 'object' then
    return 'a rate must be a JSON object';
  end if;
  select k into v_unknown
  from jsonb_object_keys(p_rate) k
  where k not in ('kind', 'usd', 'per', 'variant', 'above_input_tokens', 'window')
  order by k
  limit 1;
  if v_unknown is not null then
    return format('unknown member %s of a rate', to_json(v_unknown));
  end if;
  if not exists (select 1 from budget_internal.charge_kinds k where k.kind = p_rate ->> 'kind') then
    return 'kind is not a charge kind';
  end if;
  if p_rate ->> 'usd' is null then
    return 'no usd; a free unit is quoted as 0';
  end if;
  if coalesce(p_rate ->> 'per', '1000000') not in ('1', '60', '1000', '3600', '1000000', '1000000000') then
    return 'per must be 1, 60, 1000, 3600, 1000000 or 1000000000';
  end if;
  if coalesce(p_rate ->> 'variant', 'standard') not in ('standard', 'priority', 'flex', 'batch', 'fast') then
    return 'variant must be standard, priority, flex, batch or fast';
  end if;
  if coalesce(p_rate ->> 'above_input_tokens', '0') !~ '^[0-9]{1,15}$' then
    return 'above_input_tokens must be a whole number of tokens';
  end if;
  if v_window is null or v_window = 'null' then
    return null;
  end if;
  if jsonb_typeof(v_window) <> 'object' or v_window - array['from', 'to', 'weekdays'] <> '{}' then
    return 'window must have from, to and, if it is not every day, weekdays';
  end if;
  if (v_window ->> 'from') !~ '^([01][0-9]|2[0-3]):[0-5][0-9]$' is not false
    or (v_window ->> 'to') !~ '^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$' is not false
  then
    return 'from and to of a window must be times of day in UTC, such as 01:30';
  end if;
  if v_window ->> 'from' = v_window ->> 'to' then
    return 'from and to of a window must differ; a rate of the whole day has no window';
  end if;
  if jsonb_typeof(v_window -> 'weekdays') not in ('array', 'null')
    or (v_window -> 'weekdays') = '[]'
    or exists (
      select 1 from jsonb_array_elements(nullif(v_window -> 'weekdays', 'null')) d
      where d.value not in ('1', '2', '3', '4', '5', '6', '7')
    )
  then
    return 'weekdays of a window must be numbers from 1, Monday, to 7';
  end if;
  return null;
end
$$;
revoke all on function budget_internal.rate_defect(jsonb) from public;
comment on function budget_internal.rate_defect(jsonb) is 'What is wrong with a rate, or null.';
