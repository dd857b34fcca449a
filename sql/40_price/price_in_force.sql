-- budget_internal.price_in_force: the reviewed price version of a model at a moment; null when there is none. A name without
-- versions of its own is the model that resolve_model says; it is looked up only then.
create or replace function budget_internal.price_in_force(p_provider text, p_model text, p_at timestamptz) returns bigint
language plpgsql stable
as $$
declare
  v_price_id bigint;
begin
  v_price_id := (
    select p.price_id
    from budget_internal.prices p
    where p.provider = p_provider and p.model = p_model and p.effective_from <= p_at
      and (p.effective_to is null or p.effective_to > p_at) and p.reviewed_at is not null
    order by p.effective_from desc
    limit 1
  );
  if v_price_id is null then
    v_price_id := (
      select p.price_id
      from budget_internal.prices p
      where p.provider = p_provider and p.model = (select budget_internal.resolve_model(p_provider, p_model))
        and p.effective_from <= p_at and (p.effective_to is null or p.effective_to > p_at) and p.reviewed_at is not null
      order by p.effective_from desc
      limit 1
    );
  end if;
  return v_price_id;
end
$$;
revoke all on function budget_internal.price_in_force(text, text, timestamptz) from public;
comment on function budget_internal.price_in_force(text, text, timestamptz) is 'Price version of a model at a moment.';
