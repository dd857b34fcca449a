-- budget_internal.resolution_report: what a person decided, as the report that settle would have got. The note goes into the ledger.
-- errors: LB101 names what is wrong.
create or replace function budget_internal.resolution_report(p_reservation_id uuid, p_action text, p_usage jsonb, p_note text)
returns jsonb
language plpgsql stable
as $$
begin
  if p_reservation_id is null then
    perform budget_internal.fail('LB101', 'reservation_id must not be null');
  elsif p_action is null or p_action not in ('charge', 'release', 'retry') then
    perform budget_internal.fail('LB101', format(
      'action must be charge, release or retry, not %s', coalesce(to_json(left(p_action, 40))::text, 'null')
    ));
  elsif p_usage is not null and p_action <> 'charge' then
    perform budget_internal.fail('LB101', format('usage is for charge, not for %s', p_action));
  elsif p_usage in ('null', '{}') then
    perform budget_internal.fail('LB101', 'usage must name a charge kind', 'Without usage (null) the whole hold is charged.');
  elsif budget_internal.usage_defect(p_usage) is not null then
    perform budget_internal.fail('LB101', budget_internal.usage_defect(p_usage));
  elsif length(p_note) > 200 then
    perform budget_internal.fail('LB101', 'note must not be longer than 200 characters');
  end if;
  return jsonb_build_object(
    'reservation_id', p_reservation_id,
    'outcome', case when p_action = 'release' then 'released' when p_usage is null then 'unknown' else 'finished' end,
    'usage', p_usage,
    'note', jsonb_strip_nulls(jsonb_build_object('resolved', p_action, 'by', session_user, 'reason', p_note))
  );
end
$$;
revoke all on function budget_internal.resolution_report(uuid, text, jsonb, text) from public;
comment on function budget_internal.resolution_report(uuid, text, jsonb, text) is 'Check and word the decision of a person; LB101.';
