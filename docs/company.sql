-- A small company, its budgets and its calls. Its names are fixed, so it wants a database of its own. While make up runs, in its folder:
--   set -a; . .pgbudget/dev.env; set +a
--   .venv/bin/pgbudget psql -c 'create database company'
--   export PGBUDGET_DSN="${PGBUDGET_DSN%/*}/company"
--   .venv/bin/pgbudget migrate up
--   .venv/bin/pgbudget psql -f docs/company.sql
-- What it prints stands in company.out, and a test compares.
\set ON_ERROR_STOP on
\pset footer off
\set QUIET on
set client_min_messages = warning;

\echo
\echo == Two models, with reviewed prices (USD a million tokens), and where they lead
select budget.set_model('openai', 'large', 100000, 10000), budget.set_model('openai', 'small', 100000, 10000),
  budget.set_model('openai', 'unpriced', 100000, 10000) \g /dev/null
select budget.review_price(budget.add_price('openai', 'large', '[{"kind": "input", "usd": 5}, {"kind": "output", "usd": 30}]'), 'ada'),
  budget.review_price(budget.add_price('openai', 'small', '[{"kind": "input", "usd": 1}, {"kind": "output", "usd": 4}]'), 'ada') \g /dev/null
select budget.set_route(null, m, 'openai', 'openai-main') from unnest(array['large', 'small', 'unpriced']) m \g /dev/null
select model, budget.usd(budget.quote('openai', model, '{"input": 1000, "output": 1000}')) as usd_for_1000_and_1000
from unnest(array['large', 'small']) model;

\echo == An org with two projects, units, a member and a tag
select budget.create_scope(null, 'org', 'acme'), budget.create_scope('acme', 'project', 'shop'),
  budget.create_scope('acme', 'project', 'research'), budget.create_scope('acme', 'unit', 'engineering', 'project', 'shop'),
  budget.create_scope('acme', 'unit', 'backend', 'unit', 'engineering'), budget.create_scope('acme', 'member', 'ada'),
  budget.create_scope('acme', 'tag', 'production') \g /dev/null
select secret as ci from budget.create_key('acme', 'shop', 'ci', '{"unit": "backend", "member": "ada", "tags": ["production"]}') \gset
select secret as agent from budget.create_key('acme', 'research', 'agent', '{"run_ceiling_usd": 1, "run_max_steps": 10}') \gset
select secret as lab from budget.create_key('acme', 'research', 'lab', '{"allowed_models": ["large", "unpriced"]}') \gset

select budget.set_budget('acme', 'org', 'acme', 3000, 'month'), budget.set_budget('acme', 'project', 'shop', 1500, 'month'),
  budget.set_budget('acme', 'unit', 'engineering', 900, 'month', '{"allocation": "sum_within"}'),
  budget.set_budget('acme', 'unit', 'backend', 20, 'day', '{"time_zone": "Europe/Paris"}'),
  budget.set_budget('acme', 'member', 'ada', 70, 'week', '{"enforcement": "check"}'),
  budget.set_budget('acme', 'tag', 'production', 1000, 'month', '{"enforcement": "soft"}'),
  budget.set_budget('acme', 'key', 'ci', 5, 'day'), budget.set_budget('acme', 'key', 'lab', 0.01, 'total') \g /dev/null
select place, scope_kind, scope_name, budget_name, enforcement, limit_usd, available_usd, binding
from budget.key_chain where org = 'acme' and key_name = 'ci' order by place, budget_name;

\echo == A budget that its unit cannot carry is refused, with the numbers
\set ON_ERROR_STOP off
\set VERBOSITY terse
select budget.create_scope('acme', 'unit', 'frontend', 'unit', 'engineering') \g /dev/null
select budget.set_budget('acme', 'unit', 'frontend', 11, 'day');
\set ON_ERROR_STOP on

\echo
\echo == A call: its worst case is held on the whole chain, then it costs what it cost
select reservation_id as call, status, budget.usd(reserved_nano_usd) as reserved_usd, granted_output_tokens, routes
from budget.reserve(:'ci', 'large', 1000, 500, 'req-1') \gset
select :'status' as status, :'reserved_usd' as reserved_usd, :'granted_output_tokens' as granted_output_tokens,
  :'routes'::jsonb -> 0 ->> 'upstream_model' as upstream_model;
select scope_kind, scope_name, spent_usd, reserved_usd from budget.key_chain where org = 'acme' and key_name = 'ci' order by place;
select status, budget.usd(charged_nano_usd) as charged_usd, source
from budget.settle(:'call', '{"input": 900, "output": 300}');
select scope_kind, scope_name, spent_usd, reserved_usd from budget.key_chain where org = 'acme' and key_name = 'ci' order by place;

\echo == Every way to be refused, in the order in which they are checked
create temporary table refused (place serial, code text, caused_by text, hint text);
create function pg_temp.refusal(p_key text, p_model text, p_input bigint, p_output bigint, p_id text default null, p_options jsonb default '{}')
returns void language sql as $$
  insert into refused (code, caused_by, hint)
  select code, scope_kind || ' ' || scope_name, case when retry_after_seconds is null then 'do not retry' else 'retry later' end
  from budget.reserve(p_key, p_model, p_input, p_output, p_id, p_options)
$$;
select pg_temp.refusal(:'ci', 'large', -1, 500) \g /dev/null
select pg_temp.refusal('pgb_nobody', 'large', 1000, 500) \g /dev/null
select budget.disable_key('acme', 'lab') \g /dev/null
select pg_temp.refusal(:'lab', 'large', 1000, 500) \g /dev/null
select budget.enable_key('acme', 'lab'), budget.set_key('acme', 'lab', '{"expires_at": "2020-01-01T00:00:00Z"}') \g /dev/null
select pg_temp.refusal(:'lab', 'large', 1000, 500) \g /dev/null
select budget.set_key('acme', 'lab', '{"expires_at": null}') \g /dev/null
select budget.set_budget('acme', 'key', 'agent', 1, 'total', jsonb_build_object('name', 'b' || n)) from generate_series(1, 11) n \g /dev/null
select pg_temp.refusal(:'agent', 'large', 1000, 500) \g /dev/null
select budget.delete_budget('acme', 'key', 'agent', 'b' || n) from generate_series(1, 11) n \g /dev/null
select pg_temp.refusal(:'ci', 'large', 1000, 501, 'req-1') \g /dev/null
select pg_temp.refusal(:'lab', 'small', 1000, 500) \g /dev/null
select pg_temp.refusal(:'ci', 'larger', 1000, 500) \g /dev/null
select pg_temp.refusal(:'lab', 'unpriced', 1000, 500) \g /dev/null
select budget.set_policy('acme', '{"require_output_limit": true}', 'research') \g /dev/null
select pg_temp.refusal(:'lab', 'large', 1000, null) \g /dev/null
select budget.set_rate_limit('acme', 'key', 'ci', 1, null) \g /dev/null
select budget.settle((budget.reserve(:'ci', 'small', 1000, 500)).reservation_id, '{"input": 900, "output": 300}') \g /dev/null
select pg_temp.refusal(:'ci', 'small', 1000, 500) \g /dev/null
select budget.set_rate_limit('acme', 'key', 'ci', null, 1500) \g /dev/null
select pg_temp.refusal(:'ci', 'small', 1000, 500) \g /dev/null
select budget.set_rate_limit('acme', 'key', 'ci', null, null) \g /dev/null
select pg_temp.refusal(:'lab', 'large', 1000, 500) \g /dev/null
-- $0.006 of $0.01 are held by a call that runs, then they are spent.
select reservation_id as call from budget.reserve(:'lab', 'large', 600, 100) \gset
select pg_temp.refusal(:'lab', 'large', 600, 100) \g /dev/null
select budget.settle(:'call', '{"input": 600, "output": 100}') \g /dev/null
select pg_temp.refusal(:'lab', 'large', 600, 100) \g /dev/null
select code, caused_by, hint from refused order by place;

\echo == The budget named in a refusal, in words
select message from budget.reserve(:'lab', 'large', 600, 100);

\echo == explain: the same decision for a would-be call, its price line by line, and what to change; nothing is taken
select budget.set_key('acme', 'lab', '{"allowed_models": null}') \g /dev/null
select budget.explain(:'lab', 'large', 600, 100) as e \gset
select l ->> 'kind' as kind, l ->> 'quantity' as quantity, l ->> 'rate_usd' as rate_usd, l ->> 'per' as per, l ->> 'cost_nano_usd' as cost_nano_usd
from jsonb_array_elements(:'e'::jsonb -> 'price_lines') l;
select b ->> 'scope' as scope, b ->> 'name' as name, b ->> 'available_usd' as available_usd, b ->> 'code' as code
from jsonb_array_elements(:'e'::jsonb -> 'budgets') b;
select :'e'::jsonb ->> 'verdict' as verdict, (:'e'::jsonb ->> 'worst_case_usd')::numeric as worst_case_usd,
  :'e'::jsonb -> 'changes' ->> 'max_output_tokens' as output_that_fits, :'e'::jsonb -> 'changes' -> 'model' as model_that_fits;

\echo == A ladder: what does not fit as asked is granted a rung lower, in the same step
select budget.set_ladder('acme', 'key', 'lab', '[{"name": "short", "max_output_tokens": 20}, {"name": "small model", "model": "small"}, {"name": "no", "refuse": true}]') \g /dev/null
select status, rung, granted_output_tokens, budget.usd(reserved_nano_usd) as reserved_usd from budget.reserve(:'lab', 'large', 600, 100);

\echo == A run: a ceiling for one piece of work of an agent, and a part of it carved out for a helper
select status, budget.usd(ceiling_nano_usd) as ceiling_usd, max_steps from budget.start_run(:'agent', 'nightly', '{"ceiling_usd": 0.5}');
select status, budget.usd(ceiling_nano_usd) as ceiling_usd from budget.start_run(:'agent', 'nightly/search', '{"ceiling_usd": 0.2, "parent_run": "nightly"}');
select reservation_id as step from budget.reserve(:'agent', 'large', 1000, 1000, null, '{"run": {"id": "nightly/search"}}') \gset
select status from budget.settle(:'step', '{"input": 1000, "output": 1000}');
select run, ceiling_usd, spent_usd, held_usd, available_usd, steps from budget.run_status where org = 'acme' order by run;
select status, budget.usd(spent_nano_usd) as spent_usd from budget.end_run(:'agent', 'nightly/search');
select run, ceiling_usd, spent_usd, held_usd, available_usd, steps from budget.run_status where org = 'acme' order by run;
select code, message from budget.reserve(:'agent', 'large', 1000, 1000, null, '{"run": {"id": "nightly/search"}}');

\echo == The books agree
select count(*) as differences from budget.verify();
