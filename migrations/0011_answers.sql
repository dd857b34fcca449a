-- Answers that a provider makes in the background: who may ask for them, and where, whichever gateway is asked.
create table budget_internal.background_answers (
  org_id bigint not null,
  key_id bigint not null,
  answer_id text not null,
  reservation_id uuid not null,
  provider text not null,
  account text not null,
  model text not null,
  kept_at timestamptz not null,
  primary key (org_id, key_id, answer_id),
  foreign key (key_id, org_id) references budget_internal.scopes (scope_id, org_id),
  constraint background_answers_id_is_short check (length(answer_id) between 1 and 200)
);
create index background_answers_kept on budget_internal.background_answers (kept_at);
comment on table budget_internal.background_answers is
'Ids of answers that are made in the background, as the provider gave them, for 30 days.';
