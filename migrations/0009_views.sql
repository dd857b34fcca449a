-- What the views need: to find the budgets of an org and the units of an org, the deleted ones too.
create index budgets_org on budget_internal.budgets (org_id) where deleted_at is null;
create index scopes_units on budget_internal.scopes (org_id, name) where kind = 'unit';

-- Columns that grow: enforcement and models.
drop function if exists budget.key_budgets(text);
