-- budget_internal.explain_budgets: the budgets that apply to one way of granting a request, in chain order, each with its room
-- and the code that it alone would refuse with.
create or replace function budget_internal.explain_budgets(
  p_way budget_internal.admission, p_slots budget_internal.slot[], p_rooms budget_internal.rooms
) returns jsonb
language plpgsql stable
as $$
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
      'scope', coalesce(c.kind, 'run'), 'name', coalesce(c.name, p_slots[i.slot].run_name), 'budget', coalesce(b.name, 'run'),
      'enforcement', p_rooms.enforcements[i.slot], 'period', coalesce(b.period, 'total'), 'models', b.models,
      'starts_at', case when isfinite(p_slots[i.slot].starts_at) then p_slots[i.slot].starts_at end,
      'ends_at', case when isfinite(p_slots[i.slot].ends_at) then p_slots[i.slot].ends_at end,
      'limit_usd', budget.usd(p_rooms.limits[i.slot]), 'spent_usd', budget.usd(p_rooms.spent[i.slot]),
      'held_usd', budget.usd(p_rooms.held[i.slot]),
      'available_usd', budget.usd(p_rooms.limits[i.slot]::numeric - p_rooms.spent[i.slot] - p_rooms.held[i.slot]),
      'steps', case when p_rooms.max_grants[i.slot] is not null then p_rooms.grants[i.slot] end,
      'max_steps', p_rooms.max_grants[i.slot],
      'code', r.code
    ) order by i.place), '[]')
    from unnest(p_way.slots) with ordinality i (slot, place)
    left join budget_internal.budgets b on b.budget_id = p_slots[i.slot].budget_id
    left join budget_internal.scopes c on c.scope_id = b.scope_id
    left join lateral budget_internal.refusing_slot(
      p_way.cost_nano_usd, p_way.fits_around, array[i.slot], p_rooms.enforcements, p_rooms.limits, p_rooms.spent,
      p_rooms.held, p_rooms.max_grants, p_rooms.grants, p_rooms.closed
    ) r on p_way.code is null
  );
end
$$;
revoke all on function budget_internal.explain_budgets(
  budget_internal.admission, budget_internal.slot[], budget_internal.rooms
) from public;
comment on function budget_internal.explain_budgets(
  budget_internal.admission, budget_internal.slot[], budget_internal.rooms
) is 'Budgets of a request with their room, in USD.';
