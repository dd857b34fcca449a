-- budget.review_price: put a price version in force from its date on.
-- repeats: a second review is refused.
create or replace function budget.review_price(p_price_id bigint, p_reviewer text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform budget_internal.check_name('reviewer', p_reviewer);
  update budget_internal.prices p
  set reviewed_by = p_reviewer, reviewed_at = budget_internal.clock()
  where p.price_id = p_price_id and p.reviewed_at is null;
  if not found then
    perform budget_internal.fail('LB101', format('price %s does not exist or is reviewed already', p_price_id), '');
  end if;
end
$$;
comment on function budget.review_price(bigint, text) is 'Mark a price version as reviewed. LB101 when there is nothing to review.';
revoke all on function budget.review_price(bigint, text) from public;
grant execute on function budget.review_price(bigint, text) to budget_admin;
