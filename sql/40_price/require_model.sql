-- budget_internal.require_model: that a model is recorded, or LB101.
create or replace function budget_internal.require_model(p_provider text, p_model text) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  if not exists (select 1 from budget_internal.models m where m.provider = p_provider and m.model = p_model) then
    perform budget_internal.fail(
      'LB101', format('there is no model %s of provider %s', to_json(p_model), to_json(p_provider)),
      'Record it with budget.set_model.'
    );
  end if;
end
$$;
revoke all on function budget_internal.require_model(text, text) from public;
comment on function budget_internal.require_model(text, text) is 'Refuse a model that is not recorded; LB101.';
