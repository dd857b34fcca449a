-- budget_internal.usage_defect: why a usage object cannot be priced; null when it can.
create or replace function budget_internal.usage_defect(p_usage jsonb) returns text
language plpgsql stable
as $$
declare
  v_kind text;
  v_value jsonb;
begin
  if jsonb_typeof(p_usage) <> 'object' then
    return 'usage must be an object of charge kinds';
  end if;
  for v_kind, v_value in select u.key, u.value from jsonb_each(p_usage) u loop
    if jsonb_typeof(v_value) <> 'number' then
      return format('usage of %s must be a whole number from 0 to 1000000000000', left(v_kind, 40));
    end if;
    if v_value::numeric < 0 or v_value::numeric > 1000000000000 or v_value::numeric <> trunc(v_value::numeric) then
      return format('usage of %s must be a whole number from 0 to 1000000000000', left(v_kind, 40));
    end if;
    if not exists (select 1 from budget_internal.charge_kinds k where k.kind = v_kind) then
      return format('%s is not a charge kind', left(v_kind, 40));
    end if;
  end loop;
  return null;
end
$$;
revoke all on function budget_internal.usage_defect(jsonb) from public;
comment on function budget_internal.usage_defect(jsonb) is 'What is wrong with a usage object, or null.';
