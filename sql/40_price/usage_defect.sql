-- budget_internal.usage_defect: why a usage object cannot be priced; null when it can.
create or replace function budget_internal.usage_defect(p_usage jsonb) returns text
language plpgsql stable
as $$
begin
  return (budget_internal.usage_defects(array[p_usage]))[1];
end
$$;
revoke all on function budget_internal.usage_defect(jsonb) from public;
comment on function budget_internal.usage_defect(jsonb) is 'What is wrong with a usage object, or null.';
