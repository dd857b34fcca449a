-- budget.model_alias: other names of models, exact or with *; those that are not reviewed price nothing.
create or replace view budget.model_alias as
select
  a.provider,
  a.alias,
  a.model,
  a.reviewed_by,
  a.reviewed_at
from budget_internal.model_aliases a;
comment on view budget.model_alias is 'Other names of models. One without reviewed_at prices nothing yet.';
revoke all on budget.model_alias from public;
grant select on budget.model_alias to budget_reader, budget_admin;
