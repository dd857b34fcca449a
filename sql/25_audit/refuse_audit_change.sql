create or replace function budget_internal.refuse_audit_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception using errcode = 'LB913', message = format('the audit log is append-only: %s refused', tg_op);
end
$$;
revoke all on function budget_internal.refuse_audit_change() from public;
comment on function budget_internal.refuse_audit_change() is 'Trigger: no row of the audit log is ever changed or deleted.';

create or replace trigger audit_is_append_only before update or delete on budget_internal.audit_entries
for each row execute function budget_internal.refuse_audit_change();
create or replace trigger audit_is_not_truncated before truncate on budget_internal.audit_entries
for each statement execute function budget_internal.refuse_audit_change();
