-- budget_internal.request_defect: what is wrong with one request of a batch; null when it can be read.
-- On the way of every request: member by member.
create or replace function budget_internal.request_defect(p_request jsonb) returns text
language plpgsql stable
as $$
declare
  v_value jsonb;
  v_options jsonb;
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
  v_value := p_request -> 'input_tokens';
  if v_value <> 'null' then
    if jsonb_typeof(v_value) <> 'number' then
      return 'input_tokens must be a number';
    elsif v_value::numeric not between 0 and 1000000000000 or v_value::numeric <> trunc(v_value::numeric) then
      return 'input_tokens must be a whole number from 0 to 1000000000000';
    end if;
  end if;
  v_value := p_request -> 'max_output_tokens';
  if v_value <> 'null' then
    if jsonb_typeof(v_value) <> 'number' then
      return 'max_output_tokens must be a number';
    elsif v_value::numeric not between 0 and 9223372036854775807 or v_value::numeric <> trunc(v_value::numeric) then
      return 'max_output_tokens must be a whole number from 0 to 9223372036854775807';
    end if;
  end if;
  v_value := p_request -> 'request_id';
  if v_value <> 'null' and (jsonb_typeof(v_value) <> 'string' or length(v_value #>> '{}') not between 1 and 200) then
    return 'request_id must be a string of 1 to 200 characters';
  end if;

  v_options := coalesce(nullif(p_request -> 'options', 'null'), '{}');
  if jsonb_typeof(v_options) <> 'object' then
    return 'options must be a JSON object';
  end if;
  if v_options - array[
    'n', 'inputs', 'features', 'uses', 'body_hash', 'holder', 'service_tier', 'grow', 'input_bounds', 'run'
  ] <> '{}' then
    return format('unknown option %s', left((
      select min(o.name) from jsonb_object_keys(v_options) o (name)
      where o.name not in (
        'n', 'inputs', 'features', 'uses', 'body_hash', 'holder', 'service_tier', 'grow', 'input_bounds', 'run'
      )
    ), 40));
  end if;
  v_value := v_options -> 'n';
  if (case when jsonb_typeof(v_value) = 'number'
    then v_value::numeric not between 1 and 1000 or v_value::numeric <> trunc(v_value::numeric) else v_value is not null end) then
    return 'n must be a whole number from 1 to 1000';
  end if;
  v_value := v_options -> 'inputs';
  if (case when jsonb_typeof(v_value) = 'number'
    then v_value::numeric not between 1 and 100000 or v_value::numeric <> trunc(v_value::numeric) else v_value is not null end) then
    return 'inputs must be a whole number from 1 to 100000';
  end if;
  -- An IF with a query in it costs a query even where that is not reached: so each stands inside one without.
  v_value := v_options -> 'features';
  if v_value <> '[]' then
    if jsonb_typeof(v_value) <> 'array' or exists (
      select 1 from jsonb_array_elements(case when jsonb_typeof(v_value) = 'array' then v_value end) f
      where jsonb_typeof(f) <> 'string'
        or not exists (select 1 from budget_internal.charge_kinds k where k.feature = f #>> '{}')
    ) then
      return 'features must be an array of features that are priced apart';
    end if;
  end if;
  v_value := v_options -> 'uses';
  if v_value <> '{}' then
    if jsonb_typeof(v_value) <> 'object' or exists (
      select 1 from jsonb_each(case when jsonb_typeof(v_value) = 'object' then v_value end) u
      where jsonb_typeof(u.value) <> 'number' or u.value::text !~ '^([1-9][0-9]?|100)$'
        or not exists (select 1 from budget_internal.charge_kinds k where k.feature = u.key and k.direction = 'fee')
    ) then
      return 'uses must be an object of features with a fee, each with a whole number from 1 to 100';
    end if;
  end if;
  v_value := v_options -> 'body_hash';
  if jsonb_typeof(v_value) <> 'string' or length(v_value #>> '{}') > 200 then
    return 'body_hash must be a string of at most 200 characters';
  end if;
  v_value := v_options -> 'holder';
  if jsonb_typeof(v_value) <> 'string' or length(v_value #>> '{}') > 200 then
    return 'holder must be a string of at most 200 characters';
  end if;
  v_value := v_options -> 'service_tier';
  if jsonb_typeof(v_value) <> 'string' or v_value #>> '{}' not in ('standard', 'priority', 'flex', 'batch', 'fast') then
    return 'service_tier must be standard, priority, flex, batch or fast';
  end if;
  if jsonb_typeof(v_options -> 'grow') <> 'boolean' then
    return 'grow must be true or false';
  end if;
  v_value := v_options -> 'input_bounds';
  if jsonb_typeof(v_value) <> 'object' or (case when jsonb_typeof(v_value) = 'object' then
    v_value - array['tokenizer', 'chars3', 'bytes4'] <> '{}'
    or jsonb_typeof(v_value -> 'tokenizer') not in ('number', 'null') or v_value ->> 'tokenizer' !~ '^[0-9]{1,12}$'
    or jsonb_typeof(v_value -> 'chars3') <> 'number' or v_value ->> 'chars3' !~ '^[0-9]{1,12}$'
    or jsonb_typeof(v_value -> 'bytes4') <> 'number' or v_value ->> 'bytes4' !~ '^[0-9]{1,12}$'
  end) then
    return 'input_bounds must be an object of tokenizer, chars3 and bytes4, whole numbers below 1000000000000';
  end if;
  if v_options ? 'run' then
    return budget_internal.run_defect(v_options -> 'run');
  end if;
  return null;
end
$$;
revoke all on function budget_internal.request_defect(jsonb) from public;
comment on function budget_internal.request_defect(jsonb) is 'What is wrong with a request, or null.';
