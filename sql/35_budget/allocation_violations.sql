-- budget_internal.allocation_violations: where budgets on the line of a scope (it, all above, all beneath) break an allocation
-- rule. each_within, of every budget over every other: none is above one that stands over it. sum_within, of budgets set so:
-- nor are the nearest ones beneath, together. One row for each pair, of a broken sum one for each share; of a sum over budget_id
-- is null. Rates are those of budget_rate. identity tells a violation before a change from one that the change made.
create or replace function budget_internal.allocation_violations(p_org_id bigint, p_scope_id bigint)
returns table (
  rule text, above_budget_id bigint, scope_id bigint, budget_id bigint, rate numeric, sum_rate numeric, identity text
)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_above_ids bigint[] := array(select a from budget_internal.scopes_above(p_org_id, p_scope_id) a) || p_scope_id;
  -- Once for all above; as an array it is looked up by index, be it one or ten thousand.
  v_below_ids bigint[];
  v_above budget_internal.budgets;
  -- Of v_above: to take a field of a row costs as much as to compare it, for each budget beneath.
  v_total boolean;
  v_models text[];
  v_rate numeric;
begin
  for v_above in
    select b.*
    from budget_internal.budgets b
    join budget_internal.scopes s on s.scope_id = b.scope_id and s.org_id = b.org_id
    where b.scope_id = any (v_above_ids) and b.org_id = p_org_id and b.deleted_at is null and b.limit_nano_usd is not null
      and b.enforcement <> 'soft' and s.kind in ('org', 'project', 'unit', 'member')
    order by b.budget_id
  loop
    v_total := v_above.period = 'total';
    v_models := v_above.models;
    v_rate := budget_internal.budget_rate(v_above.limit_nano_usd, v_above.period);
    v_below_ids := coalesce(
      v_below_ids, array(select l from budget_internal.scopes_below(p_org_id, p_scope_id) l) || p_scope_id
    );

    -- A deleted scope has no budgets.
    return query
    select
      'each_within', v_above.budget_id, b.scope_id, b.budget_id, r.rate, null::numeric,
      jsonb_build_array('each_within', v_above.scope_id, v_above.name, b.scope_id, b.name)::text
    from budget_internal.budgets b
    cross join lateral budget_internal.budget_rate(b.limit_nano_usd, b.period) r (rate)
    where b.scope_id = any (v_below_ids) and b.scope_id <> v_above.scope_id and b.org_id = p_org_id
      and budget_internal.is_compared(b, v_total, v_models)
      and r.rate > v_rate;

    if v_above.allocation = 'sum_within' then
      return query
      with share as (
        select h.of_members, h.scope_id, h.rate from budget_internal.shares_below(p_org_id, v_above.scope_id, v_total, v_models) h
      ), broken as (
        select h.of_members, sum(h.rate) as sum_rate
        from share h
        group by h.of_members
        having sum(h.rate) > v_rate
      )
      select
        'sum_within', v_above.budget_id, h.scope_id, null::bigint, h.rate, k.sum_rate,
        jsonb_build_array('sum_within', v_above.scope_id, v_above.name, h.of_members, h.scope_id)::text
      from broken k
      join share h on h.of_members = k.of_members;
    end if;
  end loop;
end
$$;
revoke all on function budget_internal.allocation_violations(bigint, bigint) from public;
comment on function budget_internal.allocation_violations(bigint, bigint) is 'Broken allocation rules on the line of a scope.';
