-- budget_internal.usage_defect: why a usage object cannot be priced; null when it can; see price_usages.
create or replace function budget_internal.usage_defect(p_usage jsonb) returns text
language plpgsql stable
as $$
begin
  return (select p.defect from budget_internal.price_usages(array[null::bigint], array[null], array[p_usage], array[null::timestamptz]) p);
end
$$;
revoke all on function budget_internal.usage_defect(jsonb) from public;
comment on function budget_internal.usage_defect(jsonb) is 'What is wrong with a usage object, or null.';
