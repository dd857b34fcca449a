-- The roles of pgbudget. They belong to the cluster, not to a database: made before the migrations, again and again.
-- People and services log in as roles of their own that are granted one of these.
do $$
declare
  v_role text;
begin
  foreach v_role in array array[
    'budget_owner', 'budget_migrator', 'budget_gateway', 'budget_reconciler', 'budget_reader', 'budget_admin'
  ] loop
    if not exists (select 1 from pg_catalog.pg_roles where rolname = v_role) then
      begin
        execute format('create role %I nologin', v_role);
      exception when duplicate_object or unique_violation then
        -- Another database of this cluster made it just now.
        raise notice 'role % is there already', v_role;
      end;
    end if;
  end loop;

  -- Only where it is missing: these rows are shared by all databases, and two writers at once are an error.
  if not pg_has_role('budget_migrator', 'budget_owner', 'member') then
    grant budget_owner to budget_migrator;
  end if;
  if not exists (
    select 1 from pg_catalog.pg_db_role_setting s
    join pg_catalog.pg_roles r on r.oid = s.setrole
    where r.rolname = 'budget_gateway' and s.setdatabase = 0
  ) then
    alter role budget_gateway set statement_timeout = '10s';
    alter role budget_gateway set lock_timeout = '5s';
  end if;
  -- Also only where it is missing: a migrator that does not own the database finds nothing left to do.
  if not has_database_privilege('budget_owner', current_database(), 'create') then
    execute format('grant create on database %I to budget_owner', current_database());
  end if;
  if exists (
    select 1 from pg_catalog.pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
    where d.datname = current_database() and a.grantee = 0 and a.privilege_type in ('TEMPORARY', 'CREATE')
  ) then
    execute format('revoke temporary, create on database %I from public', current_database());
  end if;
  if exists (
    select 1 from pg_catalog.pg_namespace n, aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
    where n.nspname = 'public' and a.grantee = 0 and a.privilege_type = 'CREATE'
  ) then
    revoke create on schema public from public;
  end if;
  -- Without a schema: the form with IN SCHEMA cannot take away what PUBLIC has by default.
  alter default privileges for role budget_owner revoke execute on functions from public;
end
$$;
