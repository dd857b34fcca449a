-- budget_internal.ensure_ledger_partitions: a partition of the ledger for this month and for the months ahead.
-- A month that has rows in the default partition already is left to budget_internal.empty_default_partition.
create or replace function budget_internal.ensure_ledger_partitions(p_months_ahead integer) returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_month timestamp;
  v_name text;
  v_made integer := 0;
begin
  for v_month in
    select date_trunc('month', budget_internal.clock() at time zone 'UTC') + make_interval(months => m)
    from generate_series(0, p_months_ahead) m
  loop
    v_name := 'ledger_entries_' || to_char(v_month, 'YYYY_MM');
    if to_regclass('budget_internal.' || v_name) is null and not exists (
      select 1 from budget_internal.ledger_entries_default d
      where d.booked_at >= v_month at time zone 'UTC' and d.booked_at < (v_month + interval '1 month') at time zone 'UTC'
    ) then
      execute format(
        'create table budget_internal.%I partition of budget_internal.ledger_entries for values from (%L) to (%L)',
        v_name, v_month at time zone 'UTC', (v_month + interval '1 month') at time zone 'UTC'
      );
      v_made := v_made + 1;
    end if;
  end loop;
  return v_made;
end
$$;
revoke all on function budget_internal.ensure_ledger_partitions(integer) from public;
comment on function budget_internal.ensure_ledger_partitions(integer) is 'Make monthly ledger partitions; returns how many were made.';

select budget_internal.ensure_ledger_partitions(12);
