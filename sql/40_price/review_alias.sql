-- budget.review_alias: put an alias in force.
-- repeats: a second review is refused.
create or replace function budget.review_alias(p_provider text, p_alias text, p_reviewer text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform budget_internal.check_name('reviewer', p_reviewer);
  update budget_internal.model_aliases a
  set reviewed_by = p_reviewer, reviewed_at = budget_internal.clock()
  where a.provider = p_provider and a.alias = p_alias and a.reviewed_at is null;
  if not found then
    perform budget_internal.fail('LB101', format('alias %s does not exist or is reviewed already', to_json(p_alias)), '');
  end if;
end
$$;
comment on function budget.review_alias(text, text, text) is 'Mark an alias as reviewed. LB101 when there is nothing to review.';
revoke all on function budget.review_alias(text, text, text) from public;
grant execute on function budget.review_alias(text, text, text) to budget_admin;
