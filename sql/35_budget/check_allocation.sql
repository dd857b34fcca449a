-- budget_internal.check_allocation: LB109 when an allocation rule is broken on the line of a scope that was not before a change.
-- Call it after the change, with what allocation_state said before it, both under the lock of the org.
create or replace function budget_internal.check_allocation(p_before text[], p_org_id bigint, p_scope_id bigint) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_new record;
  v_above text;
  v_below text;
begin
  select v.*, a.period as above_period, b.period as below_period, a.limit_nano_usd as above_limit, b.limit_nano_usd as below_limit,
    a.scope_id as above_scope_id, a.name as above_name, b.name as below_name
  into v_new
  from (
    -- All shares of a sum have its rate.
    select w.*, count(*) over (partition by w.rule, w.above_budget_id, w.sum_rate) - 1 as others
    from budget_internal.allocation_violations(p_org_id, p_scope_id) w
  ) v
  join budget_internal.budgets a on a.budget_id = v.above_budget_id
  left join budget_internal.budgets b on b.budget_id = v.budget_id
  where v.identity <> all (p_before)
  -- The pair that the change itself is about comes first.
  order by v.rule, v.scope_id <> p_scope_id, a.scope_id <> p_scope_id, v.above_budget_id, v.rate desc, v.scope_id
  limit 1;
  if v_new.rule is null then
    return;
  end if;

  v_above := budget_internal.budget_words(v_new.above_scope_id, v_new.above_name, v_new.above_limit, v_new.above_period);
  if v_new.rule = 'each_within' then
    v_below := budget_internal.budget_words(v_new.scope_id, v_new.below_name, v_new.below_limit, v_new.below_period);
    perform budget_internal.fail('LB109', format('%s is more than %s, which stands over it', v_below, v_above),
      'Lower the one below, raise the one above, or make one of them soft.');
  end if;
  select format('%s %s', s.kind, to_json(s.name)) into v_below
  from budget_internal.scopes s
  where s.scope_id = v_new.scope_id and s.org_id = p_org_id;
  perform budget_internal.fail('LB109', format(
    'the budgets of %s come to %s, more than %s, which they must be within together',
    v_below || case v_new.others when 0 then '' when 1 then ' and 1 other' else format(' and %s others', v_new.others) end,
    budget_internal.rate_words(v_new.sum_rate, v_new.above_period), v_above
  ), 'Lower one of those below, raise the one above, or set its allocation to each_within.');
end
$$;
revoke all on function budget_internal.check_allocation(text[], bigint, bigint) from public;
comment on function budget_internal.check_allocation(text[], bigint, bigint) is
  'Refuse a change that broke an allocation rule; LB109 names the budgets and the numbers.';
