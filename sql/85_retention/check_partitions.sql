-- budget_internal.check_partitions: an alert where the ledger has no partition for the next month. What is booked then goes to the
-- default partition: nothing is lost, but retention cannot drop it.
create or replace function budget_internal.check_partitions() returns void
language plpgsql volatile
as $$
declare
  v_month constant date := (date_trunc('month', budget_internal.clock() at time zone 'UTC') + interval '1 month')::date;
begin
  if not exists (select 1 from budget_internal.ledger_partitions() p where p.month_on = v_month) then
    perform budget_internal.raise_alert(0, 'upkeep', 'partition/' || to_char(v_month, 'YYYY-MM'), jsonb_build_object(
      'message', format('the ledger has no partition for %s', to_char(v_month, 'YYYY-MM')),
      'hint', 'The daily upkeep does not run or cannot get its locks: see docs/ops.md.'
    ), budget_internal.clock());
  end if;
end
$$;
revoke all on function budget_internal.check_partitions() from public;
comment on function budget_internal.check_partitions() is 'Raise an alert if the ledger has no partition for next month.';
