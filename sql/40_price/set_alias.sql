-- budget.set_alias: another name of a provider's model, or a pattern of names in which * stands for any characters. It prices
-- nothing until it is reviewed. p_model null removes it.
-- errors:  LB101 unknown model, bad name.
-- repeats: the same model again changes nothing; another one needs a review of its own.
create or replace function budget.set_alias(p_provider text, p_alias text, p_model text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform budget_internal.check_name('provider', p_provider), budget_internal.check_name('alias', p_alias);
  if p_model is null then
    delete from budget_internal.model_aliases a where a.provider = p_provider and a.alias = p_alias;
    return;
  end if;
  perform budget_internal.require_model(p_provider, p_model);
  insert into budget_internal.model_aliases as a (provider, alias, model)
  values (p_provider, p_alias, p_model)
  on conflict (provider, alias) do update
  set model = excluded.model, reviewed_by = null, reviewed_at = null
  where a.model <> excluded.model;
end
$$;
comment on function budget.set_alias(text, text, text) is
  'Name a model another way, exactly or by a pattern with *; null as the model removes the alias. Needs review_alias. LB101 on bad input.';
revoke all on function budget.set_alias(text, text, text) from public;
grant execute on function budget.set_alias(text, text, text) to budget_admin;
