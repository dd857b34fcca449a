-- budget_internal.ledger_partitions: the monthly partitions that the ledger has, oldest first; not the default one.
create or replace function budget_internal.ledger_partitions()
returns table (partition_name text, month_on date, starts_at timestamptz, ends_at timestamptz)
language sql stable
as $$
  select n.name, n.month_on, n.month_on::timestamp at time zone 'UTC', (n.month_on + interval '1 month') at time zone 'UTC'
  from (
    select c.relname::text as name, to_date(right(c.relname, 7), 'YYYY_MM') as month_on
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'budget_internal.ledger_entries'::regclass and c.relname ~ '^ledger_entries_\d{4}_\d\d$'
  ) n
  order by n.month_on
$$;
revoke all on function budget_internal.ledger_partitions() from public;
comment on function budget_internal.ledger_partitions() is 'Monthly partitions of the ledger, oldest first.';
