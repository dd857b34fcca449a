-- budget.key_models: the models a key can call now: routed, allowed and with a reviewed price.
-- errors: LB102 unknown, disabled or expired key.
create or replace function budget.key_models(p_key text) returns table (model text, provider text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
  select r.model, min(r.provider)
  from budget_internal.keys k
  join budget_internal.routes r on r.org_id = k.org_id or (
    r.org_id = 0 and not exists (
      select 1 from budget_internal.routes o where o.org_id = k.org_id and o.model = r.model
    )
  )
  where k.key_id = budget_internal.usable_key(p_key)
    and (k.allowed_models is null or r.model = any (k.allowed_models))
  group by r.model
  having bool_and(
    budget_internal.price_in_force(r.provider, r.upstream_model, budget_internal.clock()) is not null
  )
  order by r.model;
end
$$;
comment on function budget.key_models(text) is 'Models that a key may call. LB102 bad key.';
revoke all on function budget.key_models(text) from public;
grant execute on function budget.key_models(text) to budget_gateway, budget_admin;
