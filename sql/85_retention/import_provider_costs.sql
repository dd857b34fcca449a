-- budget.import_provider_costs: what a provider says that its days (UTC) cost: [{"day", "model", "cost_usd"}, ...]. Without a model
-- a cost is the whole day's. Several of one day and model are added up, as exports have a line a project or kind.
-- errors: LB101 unknown account, bad day, model or amount: names its place.
-- repeats: the same costs again change nothing; others of the same day and model take their place, which is audited.
-- Returns how many costs are new or changed.
create or replace function budget.import_provider_costs(p_account text, p_costs jsonb, p_source text) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_account_id bigint := budget_internal.find_scope(0, 'account', p_account);
  v_changed integer;
begin
  perform budget_internal.check_name('source', p_source);
  if jsonb_typeof(p_costs) is distinct from 'array' then
    perform budget_internal.fail('LB101', 'costs must be a JSON array');
  end if;
  perform budget_internal.check_provider_cost(c.value, c.ordinality) from jsonb_array_elements(p_costs) with ordinality c;

  insert into budget_internal.provider_costs as p (account_id, day_on, model, cost_nano_usd, source, imported_at)
  select
    v_account_id, (c.value ->> 'day')::date as day_on, coalesce(c.value ->> 'model', '') as model,
    -- Providers state more decimals than a nano-dollar has.
    round(sum((c.value ->> 'cost_usd')::numeric) * 1000000000)::bigint, p_source, budget_internal.clock()
  from jsonb_array_elements(p_costs) c
  group by day_on, model
  order by day_on, model
  on conflict (account_id, day_on, model, org_id) do update
  set cost_nano_usd = excluded.cost_nano_usd, source = excluded.source, imported_at = excluded.imported_at
  where p.cost_nano_usd <> excluded.cost_nano_usd;
  get diagnostics v_changed = row_count;
  perform budget_internal.check_drift();
  return v_changed;
end
$$;
comment on function budget.import_provider_costs(text, jsonb, text) is
  'Import what a provider account cost by day (UTC): [{"day": "2027-01-31", "model": ..., "cost_usd": ...}]; a later import of a day '
  'and model replaces the earlier one. Returns how many are new or changed. LB101 on bad input.';
revoke all on function budget.import_provider_costs(text, jsonb, text) from public;
grant execute on function budget.import_provider_costs(text, jsonb, text) to budget_admin;
