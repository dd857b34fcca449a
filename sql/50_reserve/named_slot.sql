-- budget_internal.named_slot: a period with the names that a refusal by it tells: looked up only if it has none yet, so that many
-- refusals of a batch look once.
create or replace function budget_internal.named_slot(p_slot budget_internal.slot) returns budget_internal.slot
language plpgsql stable
as $$
begin
  if p_slot.names is not null then
    return p_slot;
  elsif p_slot.budget_id is null then
    p_slot.names := array['run', p_slot.run_name, 'run'];
    return p_slot;
  end if;
  select array[s.kind::text, s.name, b.name] into p_slot.names
  from budget_internal.budgets b
  join budget_internal.scopes s on s.scope_id = b.scope_id
  where b.budget_id = p_slot.budget_id;
  return p_slot;
end
$$;
revoke all on function budget_internal.named_slot(budget_internal.slot) from public;
comment on function budget_internal.named_slot(budget_internal.slot) is 'A period with the names of its scope and budget.';
