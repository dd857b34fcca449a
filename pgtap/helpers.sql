-- budget_test: short ways to make what a test needs. Loaded before the tests, never in production.
create schema if not exists budget_test;

create or replace function budget_test.key(p_limit_usd numeric default null, p_options jsonb default '{}') returns text
language plpgsql
as $$
declare
  v_secret text;
begin
  if not exists (select 1 from budget_internal.scopes where kind = 'org' and name = 'o') then
    perform budget.create_scope(null, 'org', 'o'), budget.create_scope('o', 'project', 'p');
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

-- A statement that must be refused as invalid input (LB101), in a message that names the field.
create or replace function budget_test.refused(p_statement text, p_field text) returns text
language plpgsql
as $$
begin
  begin
    execute p_statement;
  exception when others then
    if sqlstate = 'LB101' and position(p_field in sqlerrm) > 0 then
      return pass(p_statement);
    end if;
    return fail(format('%s: %s %s', p_statement, sqlstate, sqlerrm));
  end;
  return fail(p_statement || ': not refused');
end
$$;

-- The chain of a key in words.
create or replace function budget_test.chain(p_name text) returns text
language sql
as $$
  select string_agg(s.kind || ' ' || s.name, ', ' order by c.place)
  from budget_internal.scopes n
  join budget_internal.keys k on k.key_id = n.scope_id
  cross join lateral unnest(k.chain) with ordinality c (scope_id, place)
  join budget_internal.scopes s on s.scope_id = c.scope_id
  where n.kind = 'key' and n.name = p_name
$$;

-- Org o with projects p and q; in p the units a, b under a, c under b, and z beside a; member m, tags t1 and t2.
create or replace procedure budget_test.tree()
language plpgsql
as $$
begin
  perform budget.create_scope(null, 'org', 'o');
  perform budget.create_scope('o', 'project', 'p'), budget.create_scope('o', 'project', 'q');
  perform budget.create_scope('o', 'unit', 'a', 'project', 'p');
  perform budget.create_scope('o', 'unit', 'b', 'unit', 'a');
  perform budget.create_scope('o', 'unit', 'c', 'unit', 'b');
  perform budget.create_scope('o', 'unit', 'z', 'project', 'p');
  perform budget.create_scope('o', 'member', 'm');
  perform budget.create_scope('o', 'tag', 't1'), budget.create_scope('o', 'tag', 't2');
end
$$;

-- Chains as no admin could set them one by one, to the end of the transaction: moves and older versions can leave them.
create or replace function budget_test.any_allocation() returns void
language sql
as $a$
  create or replace function budget_internal.check_allocation(p_before text[], p_org_id bigint, p_scope_id bigint) returns void
  language sql
  set search_path = pg_catalog, pg_temp
  as ''
$a$;
