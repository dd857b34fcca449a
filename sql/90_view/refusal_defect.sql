-- budget_internal.refusal_defect: what is wrong with one count of refusals, by field; null when it can be read.
create or replace function budget_internal.refusal_defect(p_count jsonb) returns text
language plpgsql stable
as $$
declare
  v_unknown text;
begin
  if jsonb_typeof(p_count) is distinct from 'object' then
    return ' must be a JSON object';
  end if;
  select k into v_unknown
  from jsonb_object_keys(p_count) k
  where k not in ('key', 'scope_kind', 'scope_name', 'code', 'count', 'minute_at')
  order by k
  limit 1;
  if v_unknown is not null then
    return format(' has an unknown member %s; known are key, scope_kind, scope_name, code, count, minute_at', to_json(left(v_unknown, 40)));
  end if;
  if coalesce(jsonb_typeof(p_count -> 'key'), 'null') not in ('null', 'string') then
    return '.key must be null or a string: the secret, or sha256: and its hash in hexadecimal';
  end if;
  if coalesce(jsonb_typeof(p_count -> 'scope_kind'), 'null') not in ('null', 'string')
     or p_count ->> 'scope_kind' <> all (enum_range(null::budget.scope_kind)::text[]) then
    return format('.scope_kind must be null or one of %s', array_to_string(enum_range(null::budget.scope_kind)::text[], ', '));
  end if;
  if coalesce(jsonb_typeof(p_count -> 'scope_name'), 'null') not in ('null', 'string') then
    return '.scope_name must be null or a string';
  end if;
  if jsonb_typeof(p_count -> 'code') is distinct from 'string' or p_count ->> 'code' <> all (budget_internal.refusal_codes()) then
    return format('.code must be one of %s', array_to_string(budget_internal.refusal_codes(), ', '));
  end if;
  if jsonb_typeof(p_count -> 'count') is distinct from 'number' or p_count ->> 'count' !~ '^[1-9][0-9]{0,11}$' then
    return '.count must be a whole number from 1 to 999999999999';
  end if;
  return null;
end
$$;
revoke all on function budget_internal.refusal_defect(jsonb) from public;
comment on function budget_internal.refusal_defect(jsonb) is 'What is wrong with a count of refusals, or null.';
