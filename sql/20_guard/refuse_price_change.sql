create or replace function budget_internal.refuse_price_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if tg_op = 'UPDATE' and old.reviewed_at is null
     and (new.price_id, new.provider, new.model, new.effective_from, new.source, new.created_at)
         is not distinct from (old.price_id, old.provider, old.model, old.effective_from, old.source, old.created_at) then
    return new;
  end if;
  raise exception using
    errcode = 'LB910',
    message = format('prices are immutable: %s refused', tg_op),
    hint = 'Add a new version with budget.add_price and review it.';
end
$$;
revoke all on function budget_internal.refuse_price_change() from public;
comment on function budget_internal.refuse_price_change() is 'Trigger: a price version is only ever added and reviewed once.';

create or replace trigger prices_are_immutable before update or delete on budget_internal.prices
for each row execute function budget_internal.refuse_price_change();
