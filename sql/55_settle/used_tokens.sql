-- budget_internal.used_tokens: what a call counts as in a token window, once that is known: its input and output; null: not known.
create or replace function budget_internal.used_tokens(p_kind budget.entry_kind, p_usage jsonb) returns bigint
language plpgsql stable
as $$
begin
  return case
    when p_kind = 'released' then 0
    -- A trusted cost may come with usage that cannot be believed.
    when p_kind = 'settled' and p_usage is not null and budget_internal.usage_defect(p_usage) is null then (
      select coalesce(sum(u.value::numeric), 0)::bigint
      from jsonb_each_text(p_usage) u
      join budget_internal.charge_kinds k on k.kind = u.key and k.direction in ('input', 'output')
    )
  end;
end
$$;
revoke all on function budget_internal.used_tokens(budget.entry_kind, jsonb) from public;
comment on function budget_internal.used_tokens(budget.entry_kind, jsonb) is 'Input and output tokens of an ended call, or null.';
