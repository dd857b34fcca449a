begin;
select plan(13);
select budget.create_scope(null, 'org', 'o');
select lives_ok($$select budget.set_policy(null, '{"ledger_retention_days": 90, "refusal_retention_days": 7, "alert_max_attempts": 3, "drift_tolerance_percent": 0}')$$);
select results_eq(
  'select ledger_retention_days, refusal_retention_days, alert_max_attempts, drift_tolerance_percent from budget_internal.policies where scope_id = 0',
  'values (90, 7, 3, 0)'
);
select budget_test.refused($$select budget.set_policy('o', '{"ledger_retention_days": 90}')$$, 'ledger_retention_days');
select budget_test.refused($$select budget.set_policy('o', '{"refusal_retention_days": 90}')$$, 'refusal_retention_days');
select budget_test.refused($$select budget.set_policy(null, '{"ledger_retention_days": 0}')$$, 'ledger_retention_days');
select budget_test.refused($$select budget.set_policy(null, '{"drift_tolerance_percent": 1001}')$$, 'drift_tolerance_percent');
select budget_test.refused($$select budget.set_policy(null, '{"refusal_retention_days": null}')$$, 'no default');
select lives_ok($$select budget.set_policy('o', '{"idempotency_days": 90}')$$, 'as long as the ledger is kept');
select budget_test.refused($$select budget.set_policy('o', '{"idempotency_days": 91}')$$, 'idempotency_days');
select budget_test.refused($$select budget.set_policy(null, '{"ledger_retention_days": 89}')$$, 'idempotency_days (90)');
select budget_test.refused($$select budget.set_policy(null, '{"idempotency_days": 91}')$$, 'idempotency_days (91)');
select lives_ok($$select budget.set_policy(null, '{"ledger_retention_days": null}')$$, 'kept for ever again');
select lives_ok($$select budget.set_policy('o', '{"idempotency_days": 91, "alert_max_attempts": 5}')$$);
select * from finish();
rollback;
