-- budget_internal.resolve_model: the model of a provider whose price a name stands for: the model of that very name if it has
-- a reviewed price, else what a reviewed alias says, else what the longest reviewed pattern that matches says; null when
-- nothing does. Names are taken as they are: never folded, trimmed or cut. A name with a price of its own that has ended stays
-- itself, so that a withdrawn model is not quietly another one.
create or replace function budget_internal.resolve_model(p_provider text, p_model text) returns text
language plpgsql stable
as $$
begin
  return coalesce((
    select p.model
    from budget_internal.prices p
    where p.provider = p_provider and p.model = p_model and p.reviewed_at is not null
    limit 1
  ), (
    select a.model
    from budget_internal.model_aliases a
    where a.provider = p_provider and a.alias = p_model and position('*' in a.alias) = 0 and a.reviewed_at is not null
  ), (
    select a.model
    from budget_internal.model_aliases a
    where a.provider = p_provider and position('*' in a.alias) > 0 and a.reviewed_at is not null
      -- Only * means something in a pattern.
      and p_model like replace(regexp_replace(a.alias, '([\\%_])', '\\\1', 'g'), '*', '%')
    order by length(a.alias) desc, a.alias
    limit 1
  ));
end
$$;
revoke all on function budget_internal.resolve_model(text, text) from public;
comment on function budget_internal.resolve_model(text, text) is 'The priced model that a name stands for; null when none.';
