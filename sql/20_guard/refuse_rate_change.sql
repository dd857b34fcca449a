create or replace function budget_internal.refuse_rate_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if tg_op = 'INSERT' and not exists (
    select 1 from budget_internal.prices p where p.price_id = new.price_id and p.reviewed_at is not null
  ) then
    return new;
  end if;
  raise exception using
    errcode = 'LB910',
    message = format('rates and windows are immutable, and closed once their price is reviewed: %s refused', tg_op),
    hint = 'Add a new version with budget.add_price and review it.';
end
$$;
revoke all on function budget_internal.refuse_rate_change() from public;
comment on function budget_internal.refuse_rate_change() is
  'Trigger: rates and windows are only ever added, and only to a price that is not reviewed.';

create or replace trigger price_rates_are_immutable before insert or update or delete on budget_internal.price_rates
for each row execute function budget_internal.refuse_rate_change();
create or replace trigger price_windows_are_immutable before insert or update or delete on budget_internal.price_windows
for each row execute function budget_internal.refuse_rate_change();
