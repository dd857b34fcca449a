-- budget_internal.request_defect: what is wrong with one request of a batch; null when it can be read.
create or replace function budget_internal.request_defect(p_request jsonb) returns text
language plpgsql stable
as $$
declare
  v_options jsonb;
  v_name text;
  v_value jsonb;
begin
  if jsonb_typeof(p_request) is distinct from 'object' then
    return 'a request must be a JSON object';
  end if;
  if jsonb_typeof(p_request -> 'key') is distinct from 'string' then
    return 'key is missing or not a string';
  end if;
  if jsonb_typeof(p_request -> 'model') is distinct from 'string' or length(p_request ->> 'model') not between 1 and 200 then
    return 'model is missing, or not a string of 1 to 200 characters';
  end if;
  -- Null where no budget of the key needs an estimate.
  v_value := coalesce(p_request -> 'input_tokens', 'null');
  if v_value <> 'null' then
    if jsonb_typeof(v_value) <> 'number' then
      return 'input_tokens must be a number';
    end if;
    if v_value::numeric < 0 or v_value::numeric > 1000000000000 or v_value::numeric <> trunc(v_value::numeric) then
      return 'input_tokens must be a whole number from 0 to 1000000000000';
    end if;
  end if;
  v_value := coalesce(p_request -> 'max_output_tokens', 'null');
  if v_value <> 'null' then
    if jsonb_typeof(v_value) <> 'number' then
      return 'max_output_tokens must be a number';
    end if;
    if v_value::numeric < 0 or v_value::numeric > 9223372036854775807 or v_value::numeric <> trunc(v_value::numeric) then
      return 'max_output_tokens must be a whole number from 0 to 9223372036854775807';
    end if;
  end if;
  v_value := coalesce(p_request -> 'request_id', 'null');
  if v_value <> 'null' and (
    jsonb_typeof(v_value) <> 'string' or length(v_value #>> '{}') not between 1 and 200
  ) then
    return 'request_id must be a string of 1 to 200 characters';
  end if;
  v_options := coalesce(nullif(p_request -> 'options', 'null'), '{}');
  if jsonb_typeof(v_options) <> 'object' then
    return 'options must be a JSON object';
  end if;
  for v_name, v_value in select o.key, o.value from jsonb_each(v_options) o loop
    case v_name
      when 'n' then
        if jsonb_typeof(v_value) <> 'number' then
          return 'n must be a whole number from 1 to 1000';
        end if;
        if v_value::numeric < 1 or v_value::numeric > 1000 or v_value::numeric <> trunc(v_value::numeric) then
          return 'n must be a whole number from 1 to 1000';
        end if;
      when 'inputs' then
        if jsonb_typeof(v_value) <> 'number' then
          return 'inputs must be a whole number from 1 to 100000';
        end if;
        if v_value::numeric < 1 or v_value::numeric > 100000 or v_value::numeric <> trunc(v_value::numeric) then
          return 'inputs must be a whole number from 1 to 100000';
        end if;
      when 'features' then
        if jsonb_typeof(v_value) <> 'array' then
          return 'features must be an array of features that are priced apart';
        elsif v_value <> '[]' then
          if exists (
            select 1 from jsonb_array_elements(v_value) f
            where jsonb_typeof(f) <> 'string'
              or not exists (select 1 from budget_internal.charge_kinds k where k.feature = f #>> '{}')
          ) then
            return 'features must be an array of features that are priced apart';
          end if;
        end if;
      when 'uses' then
        if jsonb_typeof(v_value) <> 'object' or exists (
          select 1 from jsonb_each(case when jsonb_typeof(v_value) = 'object' then v_value end) u
          where jsonb_typeof(u.value) <> 'number' or u.value::text !~ '^([1-9][0-9]?|100)$'
            or not exists (select 1 from budget_internal.charge_kinds k where k.feature = u.key and k.direction = 'fee')
        ) then
          return 'uses must be an object of features with a fee, each with a whole number from 1 to 100';
        end if;
      when 'body_hash', 'holder' then
        if jsonb_typeof(v_value) <> 'string' or length(v_value #>> '{}') > 200 then
          return format('%s must be a string of at most 200 characters', v_name);
        end if;
      when 'service_tier' then
        if jsonb_typeof(v_value) <> 'string' or v_value #>> '{}' not in ('standard', 'priority', 'flex', 'batch', 'fast') then
          return 'service_tier must be standard, priority, flex, batch or fast';
        end if;
      when 'grow' then
        if jsonb_typeof(v_value) <> 'boolean' then
          return 'grow must be true or false';
        end if;
      when 'input_bounds' then
        if jsonb_typeof(v_value) <> 'object' or exists (
          select 1 from jsonb_each(case when jsonb_typeof(v_value) = 'object' then v_value end) b
          where b.key not in ('tokenizer', 'chars3', 'bytes4') or jsonb_typeof(b.value) <> 'number'
            or b.value::text !~ '^[0-9]{1,12}$'
        ) then
          return 'input_bounds must be an object of tokenizer, chars3 and bytes4, whole numbers below 1000000000000';
        end if;
      when 'run' then
        v_name := budget_internal.run_defect(v_value);
        if v_name is not null then
          return v_name;
        end if;
      else
        return format('unknown option %s', left(v_name, 40));
    end case;
  end loop;
  return null;
end
$$;
revoke all on function budget_internal.request_defect(jsonb) from public;
comment on function budget_internal.request_defect(jsonb) is 'What is wrong with a request, or null.';
