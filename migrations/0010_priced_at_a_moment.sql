-- What is priced is priced at a moment, and in a service variant.
drop function if exists budget_internal.plan_cost(bigint[], bigint, numeric, text[]);
drop function if exists budget_internal.explain_prices(budget_internal.admission);
drop function if exists budget_internal.explain_output(budget_internal.admission, budget_internal.rooms, budget_internal.rates);
