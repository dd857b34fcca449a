-- budget_internal.correct_units: the same for the true-up of one call, which may take away.
create or replace function budget_internal.correct_units(
  p_org_id bigint, p_scope_ids bigint[], p_reserved_at timestamptz, p_amount_nano_usd bigint
) returns void
language plpgsql volatile
as $$
begin
  perform 1
  from budget_internal.unit_months u
  where u.unit_id = any (p_scope_ids) and u.month_on = date_trunc('month', p_reserved_at at time zone 'UTC')::date
  order by u.unit_id
  for update;
  insert into budget_internal.unit_months as u (org_id, unit_id, month_on, spent_nano_usd)
  select p_org_id, s.scope_id, date_trunc('month', p_reserved_at at time zone 'UTC')::date, p_amount_nano_usd
  from budget_internal.scopes s
  where s.scope_id = any (p_scope_ids) and s.kind = 'unit' and p_amount_nano_usd > 0
  order by s.scope_id
  on conflict (unit_id, month_on, org_id) do update set spent_nano_usd = u.spent_nano_usd + excluded.spent_nano_usd;
  update budget_internal.unit_months u
  set spent_nano_usd = u.spent_nano_usd + p_amount_nano_usd
  where u.unit_id = any (p_scope_ids) and u.month_on = date_trunc('month', p_reserved_at at time zone 'UTC')::date
    and p_amount_nano_usd < 0;
end
$$;
revoke all on function budget_internal.correct_units(bigint, bigint[], timestamptz, bigint) from public;
comment on function budget_internal.correct_units(bigint, bigint[], timestamptz, bigint) is 'Add a true-up to the units of a call.';
