-- budget_internal.named_run: the run of a key that has this name; a row of nulls when there is none.
create or replace function budget_internal.named_run(p_key_id bigint, p_name text) returns budget_internal.runs
language plpgsql stable
as $$
declare
  v_run budget_internal.runs;
begin
  select r.* into v_run
  from budget_internal.scopes s
  join budget_internal.runs r on r.run_id = s.scope_id
  where s.parent_id = p_key_id and s.name = p_name and s.kind = 'run' and s.deleted_at is null;
  return v_run;
end
$$;
revoke all on function budget_internal.named_run(bigint, text) from public;
comment on function budget_internal.named_run(bigint, text) is
  'Run of a key by its name, or null.';
