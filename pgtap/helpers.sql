-- budget_test: short ways to make what a test needs. Loaded before the tests, never in production.
create schema if not exists budget_test;

create or replace function budget_test.key(p_limit_usd numeric default null, p_options jsonb default '{}') returns text
language plpgsql
as $$
declare
  v_secret text;
begin
  if not exists (select 1 from budget_internal.scopes where kind = 'org' and name = 'o') then
    perform budget.create_org('o'), budget.create_project('o', 'p');
  end if;
  select c.secret into v_secret from budget.create_key('o', 'p', 'k', p_options) c;
  if p_limit_usd is not null then
    perform budget.set_budget('o', 'key', 'k', p_limit_usd, 'day');
  end if;
  return v_secret;
end
$$;

create or replace function budget_test.at(p_moment text) returns void
language plpgsql
as $$
begin
  execute format(
    'create or replace function budget_internal.clock() returns timestamptz language sql volatile '
    'set search_path = pg_catalog, pg_temp as %L', format('select timestamptz %L', p_moment)
  );
end
$$;

create or replace function budget_test.counters() returns table (spent bigint, held bigint)
language sql
as $$ select spent_nano_usd / 1000, held_nano_usd / 1000 from budget_internal.periods order by period_id $$;
