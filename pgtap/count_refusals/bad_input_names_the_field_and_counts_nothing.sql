begin;
select plan(20);
create temporary table bad (counts text, field text);
insert into bad values
('null', 'counts'),
('{}', 'counts'),
('[1]', 'counts\[0\] must be a JSON object'),
('[{"key": "k", "code": "budget_busy", "count": 1}, {"key": 1, "code": "budget_busy", "count": 1}]', 'counts\[1\]\.key'),
('[{"key": "k", "code": "budget_busy", "count": 1, "more": 1}]', 'more'),
('[{"key": "k", "code": "budget_busy", "count": 1, "scope_kind": "team"}]', 'scope_kind'),
('[{"key": "k", "code": "budget_busy", "count": 1, "scope_kind": 1}]', 'scope_kind'),
('[{"key": "k", "code": "budget_busy", "count": 1, "scope_name": 1}]', 'scope_name'),
('[{"key": "k", "code": "made_up", "count": 1}]', 'code'),
('[{"key": "k", "count": 1}]', 'code'),
('[{"key": "k", "code": "budget_busy"}]', 'count'),
('[{"key": "k", "code": "budget_busy", "count": 0}]', 'count'),
('[{"key": "k", "code": "budget_busy", "count": -1}]', 'count'),
('[{"key": "k", "code": "budget_busy", "count": 1.5}]', 'count'),
('[{"key": "k", "code": "budget_busy", "count": "1"}]', 'count'),
('[{"key": "k", "code": "budget_busy", "count": 1e30}]', 'count'),
('[{"key": "k", "code": "budget_busy", "count": 1, "minute_at": "now"}]', 'minute_at'),
('[{"key": "k", "code": "budget_busy", "count": 1, "minute_at": "2026-02-31T00:00:00Z"}]', 'minute_at');
select throws_matching(
  format('select budget.count_refusals(%L)', counts), field, field || ' in ' || counts
) from bad;
select throws_ok($$select budget.count_refusals('[{}]')$$, 'LB101');
select is_empty('select * from budget.refusal_count');
select * from finish();
rollback;
