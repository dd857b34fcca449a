-- budget_internal.copy_default_rows: rows of the default partition of the ledger, copied into tables of their months, which nobody
-- reads yet; at most so many. Returns how many. p_all: also those that were booked meanwhile; under the lock of the ledger.
create or replace function budget_internal.copy_default_rows(p_limit integer, p_all boolean) returns integer
language plpgsql volatile
as $$
declare
  v_month date;
  v_name text;
  v_from timestamptz;
  v_to timestamptz;
  v_rows integer;
  v_copied integer := 0;
begin
  for v_month in
    select distinct date_trunc('month', d.booked_at at time zone 'UTC')::date as month_on
    from budget_internal.ledger_entries_default d
    order by month_on
  loop
    v_name := 'ledger_entries_' || to_char(v_month, 'YYYY_MM');
    v_from := v_month::timestamp at time zone 'UTC';
    v_to := (v_month + interval '1 month') at time zone 'UTC';
    if to_regclass('budget_internal.' || v_name) is null then
      -- With the check, attaching it need not read it.
      execute format(
        'create table budget_internal.%I (like budget_internal.ledger_entries including defaults including constraints '
        'including indexes, constraint ledger_entries_month check (booked_at >= %L and booked_at < %L))', v_name, v_from, v_to
      );
    end if;
    execute format(
      'insert into budget_internal.%1$I select d.* from budget_internal.ledger_entries_default d '
      'where d.booked_at >= $1 and d.booked_at < $2 and case when $4 '
      'then not exists (select 1 from budget_internal.%1$I m where m.entry_id = d.entry_id) '
      'else d.entry_id > coalesce((select max(m.entry_id) from budget_internal.%1$I m), 0) end order by d.entry_id limit $3', v_name
    ) using v_from, v_to, case when not p_all then p_limit - v_copied end, p_all;
    get diagnostics v_rows = row_count;
    v_copied := v_copied + v_rows;
    exit when not p_all and v_copied >= p_limit;
  end loop;
  return v_copied;
end
$$;
revoke all on function budget_internal.copy_default_rows(integer, boolean) from public;
comment on function budget_internal.copy_default_rows(integer, boolean) is
  'Copy rows of the default partition towards their months; returns how many.';
