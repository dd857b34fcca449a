-- budget_internal.check_drift: an alert for each account and day that is over and whose drift is over the tolerance.
create or replace function budget_internal.check_drift() returns void
language plpgsql volatile
as $$
begin
  perform budget_internal.raise_alert(0, 'drift', d.account || '/' || d.day, jsonb_build_object(
    'account', d.account, 'day', d.day, 'ledger_usd', d.ledger_usd, 'provider_usd', d.provider_usd,
    'difference_usd', d.difference_usd, 'difference_percent', d.difference_percent
  ), budget_internal.clock())
  from budget.drift d
  where d.over_tolerance and d.day < (budget_internal.clock() at time zone 'UTC')::date
    and not exists (select 1 from budget_internal.alerts a where a.kind = 'drift' and a.cause = d.account || '/' || d.day)
  order by d.account, d.day;
end
$$;
revoke all on function budget_internal.check_drift() from public;
comment on function budget_internal.check_drift() is 'Raise alerts for days whose drift is over the tolerance.';
