-- budget_internal.charged_period_ids: of the periods of a call, those that its cost belongs to: a budget narrowed to models
-- counts only what was priced as one of them.
create or replace function budget_internal.charged_period_ids(p_period_ids bigint[], p_price_id bigint) returns bigint[]
language plpgsql stable
as $$
begin
  return array(
    select i.period_id
    from unnest(p_period_ids) with ordinality i (period_id, place)
    join budget_internal.periods p on p.period_id = i.period_id
    join budget_internal.budgets b on b.budget_id = p.budget_id
    where b.models is null
      or (select m.model from budget_internal.prices m where m.price_id = p_price_id) = any (b.models)
    order by i.place
  );
end
$$;
revoke all on function budget_internal.charged_period_ids(bigint[], bigint) from public;
comment on function budget_internal.charged_period_ids(bigint[], bigint) is 'Periods that a cost belongs to.';
