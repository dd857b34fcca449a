-- budget_internal.usage_defects: why each of some usage objects cannot be priced; null where it can, or where there is none.
create or replace function budget_internal.usage_defects(p_usages jsonb[]) returns text[]
language plpgsql stable
as $$
begin
  return array(
    select case when i.usage is not null then coalesce(
      case when jsonb_typeof(i.usage) <> 'object' then 'usage must be an object of charge kinds' end,
      (min(array[d.kind, d.defect]))[2]
    ) end
    from unnest(p_usages) with ordinality i (usage, place)
    left join lateral (
      select u.key as kind,
        case when n.is_number_in_range then format('%s is not a charge kind', left(u.key, 40))
          else format('usage of %s must be a whole number from 0 to 1000000000000', left(u.key, 40)) end as defect
      from jsonb_each(case when jsonb_typeof(i.usage) = 'object' then i.usage end) u
      left join budget_internal.charge_kinds k on k.kind = u.key
      cross join lateral (
        select case when jsonb_typeof(u.value) = 'number'
          then u.value::numeric between 0 and 1000000000000 and u.value::numeric = trunc(u.value::numeric)
          else false end as is_number_in_range
      ) n
      where not n.is_number_in_range or k.kind is null
    ) d on true
    group by i.place, i.usage
    order by i.place
  );
end
$$;
revoke all on function budget_internal.usage_defects(jsonb[]) from public;
comment on function budget_internal.usage_defects(jsonb[]) is 'What is wrong with each usage object, or null.';
