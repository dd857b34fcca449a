-- budget_internal.empty_default_partition: bring what was booked without a partition of its month into one. Copied in batches beside
-- the ledger; in the last step the copies take the place of the default partition, which is made anew: no reader ever sees a row
-- twice or not at all, and no row of the ledger is changed. Returns whether more remains.
-- locks: in the last step the ledger, for as long as it takes to copy what was booked since the last batch.
create or replace function budget_internal.empty_default_partition(p_limit integer) returns boolean
language plpgsql volatile
as $$
declare
  v_name text;
  v_month date;
begin
  if not exists (select 1 from budget_internal.ledger_entries_default) then
    return false;
  end if;
  if budget_internal.copy_default_rows(p_limit, false) >= p_limit then
    return true;
  end if;

  lock table budget_internal.ledger_entries in access exclusive mode;
  perform budget_internal.copy_default_rows(null, true);
  alter table budget_internal.ledger_entries detach partition budget_internal.ledger_entries_default;
  for v_month in
    select distinct date_trunc('month', d.booked_at at time zone 'UTC')::date
    from budget_internal.ledger_entries_default d
  loop
    v_name := 'ledger_entries_' || to_char(v_month, 'YYYY_MM');
    execute format(
      'alter table budget_internal.ledger_entries attach partition budget_internal.%I for values from (%L) to (%L)',
      v_name, v_month::timestamp at time zone 'UTC', (v_month + interval '1 month') at time zone 'UTC'
    );
    execute format('alter table budget_internal.%I drop constraint ledger_entries_month', v_name);
  end loop;
  drop table budget_internal.ledger_entries_default;
  create table budget_internal.ledger_entries_default partition of budget_internal.ledger_entries default;
  return false;
end
$$;
revoke all on function budget_internal.empty_default_partition(integer) from public;
comment on function budget_internal.empty_default_partition(integer) is
  'Move rows of the default partition into their months, a batch a call; returns whether more remains.';
