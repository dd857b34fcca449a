-- budget.set_alert_destinations: where alerts go from now on; a gateway says so when it starts. What is pending for another
-- destination stays in the outbox.
-- p_soft_only: those that are told only what soft budgets and no budget have to tell.
-- errors: LB101 unknown destination.
create or replace function budget.set_alert_destinations(p_names text[], p_soft_only text[] default '{smtp}') returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_unknown text;
begin
  select n into v_unknown
  from unnest(p_names || p_soft_only) n
  where n is null or n not in ('slack', 'google_chat', 'webhook', 'smtp')
  limit 1;
  if found or p_names is null or p_soft_only is null then
    perform budget_internal.fail('LB101', format(
      'destinations must be of slack, google_chat, webhook, smtp, not %s', coalesce(to_json(left(v_unknown, 40))::text, 'null')
    ));
  end if;
  delete from budget_internal.alert_destinations d where d.destination <> all (p_names);
  insert into budget_internal.alert_destinations as d (destination, soft_only, set_at)
  select distinct n, n = any (p_soft_only), budget_internal.clock()
  from unnest(p_names) n
  order by n
  on conflict (destination) do update
  set soft_only = excluded.soft_only, set_at = excluded.set_at
  where d.soft_only <> excluded.soft_only;
end
$$;
comment on function budget.set_alert_destinations(text[], text[]) is
  'Say where alerts go: slack, google_chat, webhook, smtp; those of p_soft_only are told nothing of strict and check budgets. '
  'LB101 unknown destination.';
revoke all on function budget.set_alert_destinations(text[], text[]) from public;
grant execute on function budget.set_alert_destinations(text[], text[]) to budget_reconciler, budget_admin;
