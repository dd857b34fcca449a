-- budget.review_price: put a price version in force from its date on, until the next reviewed version begins. The version
-- that was in force at that date ends there.
-- locks:   the model.
-- repeats: a second review is refused.
create or replace function budget.review_price(p_price_id bigint, p_reviewer text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_price budget_internal.prices;
  v_until timestamptz;
begin
  perform budget_internal.check_name('reviewer', p_reviewer);
  select p.* into v_price from budget_internal.prices p where p.price_id = p_price_id;
  if v_price.price_id is not null then
    perform budget_internal.lock_model(v_price.provider, v_price.model);
    -- Read again: another review may have come before the lock.
    select p.* into v_price from budget_internal.prices p where p.price_id = p_price_id and p.reviewed_at is null;
  end if;
  if v_price.price_id is null then
    perform budget_internal.fail('LB101', format('price %s does not exist or is reviewed already', p_price_id), '');
  end if;

  -- What it splits keeps its end: the next version's start, or the moment at which the model is withdrawn.
  v_until := coalesce((
    select p.effective_to
    from budget_internal.prices p
    where p.provider = v_price.provider and p.model = v_price.model and p.reviewed_at is not null
      and p.effective_from < v_price.effective_from and p.effective_to > v_price.effective_from
  ), (
    select min(p.effective_from)
    from budget_internal.prices p
    where p.provider = v_price.provider and p.model = v_price.model and p.reviewed_at is not null
      and p.effective_from > v_price.effective_from
  ));
  update budget_internal.prices p
  set effective_to = v_price.effective_from
  where p.provider = v_price.provider and p.model = v_price.model and p.reviewed_at is not null
    and p.effective_from < v_price.effective_from and (p.effective_to is null or p.effective_to > v_price.effective_from);
  update budget_internal.prices p
  set reviewed_by = p_reviewer, reviewed_at = budget_internal.clock(), effective_to = v_until
  where p.price_id = p_price_id;
end
$$;
comment on function budget.review_price(bigint, text) is
  'Mark a price version as reviewed; the one before it ends where it begins. LB101 when there is nothing to review.';
revoke all on function budget.review_price(bigint, text) from public;
grant execute on function budget.review_price(bigint, text) to budget_admin;
