-- budget_internal.audit_event: something that a person did to the books by hand, as a row of the audit log.
create or replace function budget_internal.audit_event(p_org_id bigint, p_subject text, p_before jsonb, p_after jsonb) returns void
language plpgsql volatile
as $$
begin
  insert into budget_internal.audit_entries (org_id, changed_at, actor, client, subject, action, before, after)
  values (
    p_org_id, budget_internal.clock(), session_user, nullif(current_setting('application_name'), ''), p_subject, 'update',
    p_before, p_after
  );
end
$$;
revoke all on function budget_internal.audit_event(bigint, text, jsonb, jsonb) from public;
comment on function budget_internal.audit_event(bigint, text, jsonb, jsonb) is 'Write what was done by hand to the audit log.';
