-- What a gateway needs to know of an answer beyond the call itself.
-- warning: of a grant, the budget of its chain that is most used, where its spend has reached a threshold or its limit.
alter type budget.reserve_result add attribute warning text;
-- budget_id: of a refusal, the budget in the way; null where a rate limit, a ceiling or a run that is not there yet refuses.
alter type budget.reserve_result add attribute budget_id bigint;
-- budget_ids: of a grant, the budgets that it is held on or counted in.
alter type budget.reserve_result add attribute budget_ids bigint[];
-- From how many percent of its limit on a budget is warned of: its lowest threshold, 100 at most.
alter type budget_internal.rooms add attribute warn_percents smallint[];
