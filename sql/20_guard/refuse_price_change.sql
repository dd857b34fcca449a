-- budget_internal.refuse_price_change: a price version is added, reviewed once, and given an end: once, or an earlier one when a
-- version that begins in between is reviewed.
create or replace function budget_internal.refuse_price_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if tg_op = 'UPDATE' and to_jsonb(new) - array['reviewed_by', 'reviewed_at', 'effective_to']
    = to_jsonb(old) - array['reviewed_by', 'reviewed_at', 'effective_to']
  then
    if old.reviewed_at is null and new.reviewed_at is not null and old.effective_to is null then
      return new;
    end if;
    if old.reviewed_at is not null
      and (new.reviewed_at, new.reviewed_by) is not distinct from (old.reviewed_at, old.reviewed_by)
      and (
        old.effective_to is null and new.effective_to is not null
        or new.effective_to < old.effective_to and exists (
          select 1
          from budget_internal.prices p
          where p.provider = new.provider and p.model = new.model and p.effective_from = new.effective_to
            and p.reviewed_at is null
        )
      )
    then
      return new;
    end if;
  end if;
  raise exception using
    errcode = 'LB910',
    message = format('prices are immutable: %s refused', tg_op),
    hint = 'Add a new version with budget.add_price and review it.';
end
$$;
revoke all on function budget_internal.refuse_price_change() from public;
comment on function budget_internal.refuse_price_change() is
  'Trigger: a price version is only ever added, reviewed once and given an end.';

create or replace trigger prices_are_immutable before update or delete on budget_internal.prices
for each row execute function budget_internal.refuse_price_change();
