-- budget_internal.clock: the one clock. Tests replace this function; there is no setting a caller could change.
create or replace function budget_internal.clock() returns timestamptz
language sql volatile
set search_path = pg_catalog, pg_temp
as $$ select clock_timestamp() $$;
revoke all on function budget_internal.clock() from public;
comment on function budget_internal.clock() is 'The time that decides periods, lateness and stamps.';
