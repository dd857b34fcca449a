-- budget_internal.price_in_force: the reviewed price version of a model at a moment; null when there is none.
create or replace function budget_internal.price_in_force(p_provider text, p_model text, p_at timestamptz) returns bigint
language plpgsql stable
as $$
begin
  return (
    select p.price_id
    from budget_internal.prices p
    where p.provider = p_provider and p.model = p_model and p.effective_from <= p_at and p.reviewed_at is not null
    order by p.effective_from desc
    limit 1
  );
end
$$;
revoke all on function budget_internal.price_in_force(text, text, timestamptz) from public;
comment on function budget_internal.price_in_force(text, text, timestamptz) is 'Price version of a model at a moment.';
