-- spec: short ways for the specs to make a world and to look at it. No ids and no times of the run are shown.
create schema spec;
grant usage on schema spec to budget_owner;

-- The clock is a row, so that a step can move it while other sessions wait.
create table spec.clock (at timestamptz not null);
insert into spec.clock values ('2027-01-15T12:00:00Z');
grant select on spec.clock to budget_owner;
create or replace function budget_internal.clock() returns timestamptz
language sql volatile
set search_path = pg_catalog, pg_temp
as $$ select at from spec.clock $$;

-- The org and the secret of the key that the permutation at hand works with.
create table spec.world (org_id bigint not null, secret text not null);

-- Further keys of that org, by name.
create table spec.keys (name text primary key, secret text not null);

-- A key with one budget in micro-dollars, in an org of its own. The call of all specs holds 900 micro-dollars.
create procedure spec.fresh(p_micro_usd integer, p_period text default 'total', p_at text default '2027-01-15T12:00:00Z')
language plpgsql
as $$
declare
  v_org text := 'o' || (select count(*) from budget_internal.scopes);
begin
  update spec.clock set at = p_at::timestamptz;
  delete from spec.world;
  delete from spec.keys;
  -- What the last permutation left open must not meet this one's reconciler.
  perform budget.release(r.reservation_id) from budget_internal.reservations r;
  perform budget.create_scope(null, 'org', v_org), budget.create_scope(v_org, 'project', 'p');
  insert into spec.world
  select s.scope_id, c.secret
  from budget.create_key(v_org, 'p', 'k') c
  join budget_internal.scopes s on s.kind = 'org' and s.name = v_org;
  perform budget.set_budget(v_org, 'key', 'k', p_micro_usd / 1000000::numeric, p_period, '{"name": "b"}');
end
$$;

create function spec.reserve(p_request_id text, p_body_hash text default 'h')
returns table (request text, status text, code text)
language sql
as $$
  select p_request_id, r.status, r.code
  from budget.reserve(
    (select secret from spec.world), 't-mini', 100, 200, p_request_id, jsonb_build_object('body_hash', p_body_hash)
  ) r
$$;

create procedure spec.open(p_request_id text)
language plpgsql
as $$
begin
  if (select status from spec.reserve(p_request_id)) <> 'granted' then
    raise exception 'the setup did not get its reservation';
  end if;
end
$$;

create function spec.id(p_request_id text) returns uuid
language sql
as $$
  select r.reservation_id
  from budget_internal.reservations r
  join spec.world w on w.org_id = r.org_id
  where r.request_id = p_request_id
  union
  select l.reservation_id
  from budget_internal.ledger_entries l
  join spec.world w on w.org_id = l.org_id
  where l.request_id = p_request_id
$$;

-- Settled with so many output tokens at 4 micro-dollars.
create function spec.settle(p_request_id text, p_output integer)
returns table (request text, status text, micro_usd bigint)
language sql
as $$
  select p_request_id, s.status, s.charged_nano_usd / 1000
  from budget.settle(spec.id(p_request_id), jsonb_build_object('output', p_output)) s
$$;

create function spec.release(p_request_id text)
returns table (request text, status text, micro_usd bigint)
language sql
as $$ select p_request_id, s.status, s.charged_nano_usd / 1000 from budget.release(spec.id(p_request_id)) s $$;

create function spec.heartbeat(p_request_id text)
returns table (request text, alive boolean)
language sql
as $$ select p_request_id, h.alive from budget.heartbeat(array[spec.id(p_request_id)]) h $$;

create procedure spec.set_budget(p_micro_usd integer, p_period text default 'total')
language plpgsql
as $$
begin
  -- A second later, so that it counts as a change.
  update spec.clock set at = at + interval '1 second';
  perform budget.set_budget(s.name, 'key', 'k', p_micro_usd / 1000000::numeric, p_period, '{"name": "b"}')
  from spec.world w
  join budget_internal.scopes s on s.scope_id = w.org_id;
end
$$;

create view spec.counters as
select
  case when isfinite(p.starts_at) then to_char(p.starts_at at time zone 'UTC', 'Mon DD') else 'total' end as period,
  b.limit_nano_usd / 1000 as limit, p.spent_nano_usd / 1000 as spent, p.held_nano_usd / 1000 as held
from budget_internal.periods p
join budget_internal.budgets b on b.budget_id = p.budget_id
join spec.world w on w.org_id = p.org_id
order by p.starts_at, p.period_id;

create view spec.calls as
select request, state, micro_usd
from (
  select r.request_id as request, 'open' as state, r.reserved_nano_usd / 1000 as micro_usd, 0 as place
  from budget_internal.reservations r
  join spec.world w on w.org_id = r.org_id
  union all
  select l.request_id, l.kind::text, l.amount_nano_usd / 1000, l.entry_id
  from budget_internal.ledger_entries l
  join spec.world w on w.org_id = l.org_id
) c
order by request, place;

-- An org of its own: project p with units a, b under a, c under b, z beside a, and key k in unit c.
create procedure spec.tree()
language plpgsql
as $$
declare
  v_org text;
begin
  call spec.fresh(9000);
  select s.name into v_org from spec.world w join budget_internal.scopes s on s.scope_id = w.org_id;
  perform budget.create_scope(v_org, 'unit', 'a', 'project', 'p');
  perform budget.create_scope(v_org, 'unit', 'b', 'unit', 'a');
  perform budget.create_scope(v_org, 'unit', 'c', 'unit', 'b');
  perform budget.create_scope(v_org, 'unit', 'z', 'project', 'p');
  perform budget.move_key(v_org, 'k', '{"unit": "c"}');
end
$$;

-- A statement of an admin, with the org at hand for $1: its outcome in a word, or what was refused.
create function spec.admin(p_statement text) returns text
language plpgsql
as $$
declare
  v_org text;
begin
  select s.name into v_org from spec.world w join budget_internal.scopes s on s.scope_id = w.org_id;
  execute p_statement using v_org;
  return 'done';
exception when sqlstate 'LB101' or sqlstate 'LB109' then
  return sqlerrm;
end
$$;

-- The tree as it is: every scope with what is above it, keys by their chain.
create view spec.tree as
select s.kind::text, s.name, coalesce(
  (
    select string_agg(l.name, ' < ' order by c.place)
    from budget_internal.keys k
    cross join lateral unnest(k.chain[2:]) with ordinality c (scope_id, place)
    join budget_internal.scopes l on l.scope_id = c.scope_id and l.kind <> 'org'
    where k.key_id = s.scope_id
  ),
  p.name
) as under
from spec.world w
join budget_internal.scopes s on s.org_id = w.org_id and s.deleted_at is null and s.kind in ('unit', 'key')
join budget_internal.scopes p on p.scope_id = s.parent_id
order by s.kind, s.name;

-- Keys k and l with 900 micro-dollars each, of the 2,700 that their project shares out.
create procedure spec.shared()
language plpgsql
as $$
begin
  call spec.fresh(900);
  perform spec.admin($a$select budget.create_key($1, 'p', 'l')$a$);
  perform spec.admin($a$select budget.set_budget($1, 'key', 'l', 0.0009, 'total', '{"name": "b"}')$a$);
  perform spec.admin($a$select budget.set_budget($1, 'project', 'p', 0.0027, 'total', '{"allocation": "sum_within"}')$a$);
end
$$;

create view spec.limits as
select s.kind::text, s.name, b.name as budget, b.limit_nano_usd / 1000 as micro_usd
from spec.world w
join budget_internal.budgets b on b.org_id = w.org_id and b.deleted_at is null
join budget_internal.scopes s on s.scope_id = b.scope_id
order by s.kind, s.name;

-- Another key of the org at hand.
create procedure spec.key(p_name text, p_tags text[] default '{}')
language plpgsql
as $$
begin
  insert into spec.keys
  select p_name, c.secret
  from spec.world w
  join budget_internal.scopes s on s.scope_id = w.org_id
  cross join lateral budget.create_key(s.name, 'p', p_name, jsonb_build_object('tags', p_tags)) c;
end
$$;

-- Calls of some keys in one batch, each named after its key: 900 micro-dollars each.
create function spec.batch(p_keys text[], p_prefix text default '')
returns table (request text, status text, code text, scope text)
language sql
as $$
  with asked as (
    select p_prefix || k.name as request, jsonb_build_object(
      'key', coalesce(s.secret, w.secret), 'model', 't-mini', 'input_tokens', 100, 'max_output_tokens', 200,
      'request_id', p_prefix || k.name
    ) as item, k.place
    from unnest(p_keys) with ordinality k (name, place)
    cross join spec.world w
    left join spec.keys s on s.name = k.name
  )
  select a.request, r.status, r.code, r.scope_name
  from budget.reserve_batch((select jsonb_agg(item order by place) from asked)) r
  join asked a on a.place = r.item
  order by r.item
$$;

-- Some calls in one report, each with 100 output tokens: 400 micro-dollars.
create function spec.settle_all(p_request_ids text[])
returns table (request text, status text, micro_usd bigint)
language sql
as $$
  select p_request_ids[s.item], s.status, s.charged_nano_usd / 1000
  from budget.settle_batch((
    select jsonb_agg(jsonb_build_object(
      'reservation_id', spec.id(i.request_id), 'outcome', 'finished', 'usage', jsonb_build_object('output', 100)
    ) order by i.place)
    from unnest(p_request_ids) with ordinality i (request_id, place)
  )) s
$$;

-- A run of key k, in micro-dollars.
create function spec.start_run(p_run text, p_micro_usd bigint, p_parent text default null)
returns table (run text, status text, code text)
language sql
as $$
  select p_run, r.status, r.code
  from spec.world w
  cross join lateral budget.start_run(w.secret, p_run, jsonb_strip_nulls(
    jsonb_build_object('ceiling_usd', trim_scale(p_micro_usd / 1000000::numeric), 'parent_run', p_parent)
  )) r
$$;

create function spec.end_run(p_run text)
returns table (run text, status text)
language sql
as $$ select p_run, r.status from spec.world w cross join lateral budget.end_run(w.secret, p_run) r $$;

-- A call of a run of key k.
create function spec.step(p_run text, p_request_id text, p_options jsonb default '{}')
returns table (request text, status text, code text, scope text)
language sql
as $$
  select p_request_id, r.status, r.code, r.scope_name
  from spec.world w
  cross join lateral budget.reserve(
    w.secret, 't-mini', 100, 200, p_request_id, jsonb_build_object('run', jsonb_build_object('id', p_run) || p_options)
  ) r
$$;

-- Every period by the name of its scope.
create view spec.rooms as
select
  s.kind, case when s.kind = 'org' then 'o' else s.name end as name,
  case when isfinite(p.starts_at) then to_char(p.starts_at at time zone 'UTC', 'Mon DD') else 'total' end as period,
  (b.limit_nano_usd + p.carried_nano_usd) / 1000 as limit, p.spent_nano_usd / 1000 as spent, p.held_nano_usd / 1000 as held,
  p.grants
from budget_internal.periods p
join budget_internal.budgets b on b.budget_id = p.budget_id
join budget_internal.scopes s on s.scope_id = b.scope_id
join spec.world w on w.org_id = p.org_id
order by s.kind, s.name, p.starts_at;

-- What was told of the key's budget, in the order it was.
create view spec.told as
select
  c.threshold, c.arming, c.spent_nano_usd / 1000 as spent, c.limit_nano_usd / 1000 as limit, c.rearmed_at is not null as rearmed,
  (select count(*) from budget_internal.alerts a where a.kind = 'threshold' and a.cause = concat_ws('/', c.period_id, c.threshold, c.arming)) as alerts
from budget_internal.crossings c
join spec.world w on w.org_id = c.org_id
order by c.arming, c.threshold;
