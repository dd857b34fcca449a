-- budget_internal.usage_defect: why a usage object cannot be priced; null when it can.
create or replace function budget_internal.usage_defect(p_usage jsonb) returns text
language plpgsql stable
as $$
begin
  if jsonb_typeof(p_usage) <> 'object' then
    return 'usage must be an object of charge kinds';
  end if;
  return (
    select case when d.is_number_in_range then format('%s is not a charge kind', left(d.kind, 40))
      else format('usage of %s must be a whole number from 0 to 1000000000000', left(d.kind, 40)) end
    from (
      select u.key as kind, k.kind is not null as is_known,
        case when jsonb_typeof(u.value) = 'number'
          then u.value::numeric between 0 and 1000000000000 and u.value::numeric = trunc(u.value::numeric)
          else false end as is_number_in_range
      from jsonb_each(p_usage) u
      left join budget_internal.charge_kinds k on k.kind = u.key
    ) d
    where not d.is_number_in_range or not d.is_known
    order by d.kind
    limit 1
  );
end
$$;
revoke all on function budget_internal.usage_defect(jsonb) from public;
comment on function budget_internal.usage_defect(jsonb) is 'What is wrong with a usage object, or null.';
