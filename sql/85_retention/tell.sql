-- budget_internal.tell: an alert of the installation. The same kind and cause again tells nothing new.
create or replace function budget_internal.tell(p_kind text, p_cause text, p_payload jsonb) returns void
language plpgsql volatile
as $$
begin
  if to_regprocedure('budget_internal.raise_alert(bigint, text, text, jsonb, timestamptz)') is not null then
    execute format('select budget_internal.%I(0, $1, $2, $3, $4)', 'raise_alert') using p_kind, p_cause, p_payload, budget_internal.clock();
  else
    insert into budget_internal.alerts (org_id, kind, cause, payload, created_at)
    values (0, p_kind, p_cause, p_payload, budget_internal.clock())
    on conflict (kind, cause) do nothing;
  end if;
end
$$;
revoke all on function budget_internal.tell(text, text, jsonb) from public;
comment on function budget_internal.tell(text, text, jsonb) is 'Put an alert of the installation into the outbox, once a cause.';
