-- budget_internal.run_defect: what is wrong with the run of a request; null when it can be read.
create or replace function budget_internal.run_defect(p_run jsonb) returns text
language plpgsql immutable
as $$
declare
  v_name text := p_run ->> 'id';
  v_unknown text;
begin
  if jsonb_typeof(p_run) <> 'object' then
    return 'run must be an object with an id';
  end if;
  select k into v_unknown from jsonb_object_keys(p_run) k where k not in ('id', 'ceiling_usd', 'max_steps') limit 1;
  if v_unknown is not null then
    return format('run has an unknown member %s; known are id, ceiling_usd, max_steps', to_json(left(v_unknown, 40)));
  end if;
  if jsonb_typeof(p_run -> 'id') is distinct from 'string' or length(v_name) not between 1 and 200
     or v_name <> btrim(v_name) or v_name ~ '[\x01-\x1f\x7f]' then
    return 'run.id must be 1 to 200 printable characters without blanks at the ends';
  end if;
  if p_run ->> 'ceiling_usd' is not null and (
    jsonb_typeof(p_run -> 'ceiling_usd') not in ('number', 'string')
    or p_run ->> 'ceiling_usd' !~ '^[0-9]{1,10}(\.[0-9]{1,9})?$'
    or (p_run ->> 'ceiling_usd')::numeric > 9000000000
  ) then
    return 'run.ceiling_usd must be an amount in USD from 0 to 9000000000 with at most nine decimals';
  end if;
  if p_run ->> 'max_steps' is not null and (
    jsonb_typeof(p_run -> 'max_steps') <> 'number' or p_run ->> 'max_steps' !~ '^[1-9][0-9]{0,17}$'
  ) then
    return 'run.max_steps must be a whole number above 0';
  end if;
  return null;
end
$$;
revoke all on function budget_internal.run_defect(jsonb) from public;
comment on function budget_internal.run_defect(jsonb) is 'What is wrong with the run of a request, or null.';
