-- budget_internal.reordered: the elements of a list in the order of some places, which count from 1.
create or replace function budget_internal.reordered(p_list anyarray, p_places integer[]) returns anyarray
language plpgsql immutable
as $$
begin
  return array(select p_list[u.i] from unnest(p_places) with ordinality u (i, place) order by u.place);
end
$$;
revoke all on function budget_internal.reordered(anyarray, integer[]) from public;
comment on function budget_internal.reordered(anyarray, integer[]) is 'A list in another order.';
