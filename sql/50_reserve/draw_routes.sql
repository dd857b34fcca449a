-- budget_internal.draw_routes: the places of the routes of a plan in the order in which they are tried: those of one priority
-- in a random order, each first as often as its weight says.
create or replace function budget_internal.draw_routes(p_priorities integer[], p_weights integer[]) returns integer[]
language plpgsql volatile
as $$
begin
  return array(
    select i from generate_subscripts(p_priorities, 1) i order by p_priorities[i], -ln(1 - random()) / p_weights[i]
  );
end
$$;
revoke all on function budget_internal.draw_routes(integer[], integer[]) from public;
comment on function budget_internal.draw_routes(integer[], integer[]) is
  'Order in which the routes of a plan are tried.';
