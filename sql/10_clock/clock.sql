-- budget_internal.clock: the one clock. Tests replace this function; there is no setting a caller could change.
-- Inlined where it is used: hence no search_path of its own.
create or replace function budget_internal.clock() returns timestamptz
language sql volatile
as $$ select pg_catalog.clock_timestamp() $$;
revoke all on function budget_internal.clock() from public;
comment on function budget_internal.clock() is 'The time that decides periods, lateness and stamps.';
