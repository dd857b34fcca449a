create or replace function budget_internal.refuse_price_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if tg_op = 'INSERT' then
    if exists (select 1 from budget_internal.prices p where p.price_id = new.price_id and p.reviewed_at is not null) then
      raise exception using
        errcode = 'LB910',
        message = format('price %s is reviewed: no rate can be added', new.price_id),
        hint = 'Add a new version with budget.add_price and review it.';
    end if;
    return new;
  end if;
  if tg_table_name = 'prices' and tg_op = 'UPDATE' and old.reviewed_at is null
     and (new.price_id, new.provider, new.model, new.effective_from, new.source, new.created_at)
         is not distinct from (old.price_id, old.provider, old.model, old.effective_from, old.source, old.created_at) then
    return new;
  end if;
  raise exception using
    errcode = 'LB910',
    message = format('prices are immutable: %s on %s', tg_op, tg_table_name),
    hint = 'Add a new version with budget.add_price and review it.';
end
$$;
revoke all on function budget_internal.refuse_price_change() from public;
comment on function budget_internal.refuse_price_change() is 'Trigger: a price version is only ever added and reviewed once.';

create or replace trigger prices_are_immutable before update or delete on budget_internal.prices
for each row execute function budget_internal.refuse_price_change();
create or replace trigger price_rates_are_immutable before insert or update or delete on budget_internal.price_rates
for each row execute function budget_internal.refuse_price_change();
