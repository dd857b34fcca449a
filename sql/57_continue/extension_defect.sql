-- budget_internal.extension_defect: what is wrong with one extension of a batch; null when it can be read.
create or replace function budget_internal.extension_defect(p_extension jsonb) returns text
language plpgsql immutable
as $$
declare
  v_tokens jsonb := p_extension -> 'output_tokens';
begin
  if jsonb_typeof(p_extension) is distinct from 'object' then
    return 'an extension must be a JSON object';
  end if;
  if coalesce(p_extension ->> 'reservation_id', '') !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then
    return 'reservation_id must be a UUID';
  end if;
  if jsonb_typeof(v_tokens) is distinct from 'number' then
    return 'output_tokens must be a whole number from 1 to 1000000000000';
  end if;
  if v_tokens::numeric < 1 or v_tokens::numeric > 1000000000000 or v_tokens::numeric <> trunc(v_tokens::numeric) then
    return 'output_tokens must be a whole number from 1 to 1000000000000';
  end if;
  return null;
end
$$;
revoke all on function budget_internal.extension_defect(jsonb) from public;
comment on function budget_internal.extension_defect(jsonb) is 'What is wrong with an extension, or null.';
