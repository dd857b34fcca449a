-- budget_internal.short_note: a note as it is kept: flat, 20 members at most, strings cut at 200 characters.
-- What a provider or a client sends must not fill the ledger.
create or replace function budget_internal.short_note(p_note jsonb) returns jsonb
language sql immutable
as $$
  select jsonb_object_agg(left(n.key, 40), left(n.value, 200))
  from (
    select e.key, e.value from jsonb_each_text(case when jsonb_typeof(p_note) = 'object' then p_note end) e
    where e.value is not null order by e.key limit 20
  ) n
$$;
revoke all on function budget_internal.short_note(jsonb) from public;
comment on function budget_internal.short_note(jsonb) is 'A note with bounded size.';
