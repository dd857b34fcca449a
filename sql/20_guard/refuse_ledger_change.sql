create or replace function budget_internal.refuse_ledger_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception using
    errcode = 'LB911',
    message = format('the ledger is append-only: %s refused', tg_op),
    hint = 'Book a correction with budget.settle or budget.resolve instead.';
end
$$;
revoke all on function budget_internal.refuse_ledger_change() from public;
comment on function budget_internal.refuse_ledger_change() is 'Trigger: no row of the ledger is ever changed or deleted.';

create or replace trigger ledger_is_append_only before update or delete on budget_internal.ledger_entries
for each row execute function budget_internal.refuse_ledger_change();
create or replace trigger ledger_is_not_truncated before truncate on budget_internal.ledger_entries
for each statement execute function budget_internal.refuse_ledger_change();
