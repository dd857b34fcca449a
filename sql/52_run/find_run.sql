-- budget_internal.find_run: the id of a run of a key by name; null when it has not started.
create or replace function budget_internal.find_run(p_key_id bigint, p_run text) returns bigint
language plpgsql stable
as $$
begin
  return (
    select s.scope_id from budget_internal.scopes s
    where s.parent_id = p_key_id and s.name = p_run and s.kind = 'run' and s.deleted_at is null
  );
end
$$;
revoke all on function budget_internal.find_run(bigint, text) from public;
comment on function budget_internal.find_run(bigint, text) is 'Run id by name, or null.';
