-- budget_internal.lock_model: one admin at a time on the versions of a model. Does not stand in the way of admission.
-- locks: the model's row, FOR NO KEY UPDATE.
create or replace function budget_internal.lock_model(p_provider text, p_model text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  perform budget_internal.require_read_committed();
  perform budget_internal.require_model(p_provider, p_model);
  perform 1 from budget_internal.models m where m.provider = p_provider and m.model = p_model for no key update;
end
$$;
revoke all on function budget_internal.lock_model(text, text) from public;
comment on function budget_internal.lock_model(text, text) is 'Take the lock on the price versions of a model; LB101 unknown model.';
