-- Who may look into which schema. Everything else is granted beside the definition of what it is for.
revoke all on schema budget, budget_internal from public;
grant usage on schema budget to budget_gateway, budget_reconciler, budget_reader, budget_admin;
