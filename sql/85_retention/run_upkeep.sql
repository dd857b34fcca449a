-- budget.run_upkeep: the daily upkeep, each step in a transaction of its own. For pg_cron and psql; not within a transaction.
-- A step that cannot get its locks is tried again a few times; what then remains is done by the next run, and told.
create or replace procedure budget.run_upkeep()
language plpgsql
as $$
declare
  v_more boolean;
  v_locked integer := 0;
begin
  loop
    begin
      v_more := budget.upkeep_step();
    exception when lock_not_available or deadlock_detected then
      v_more := null;
    end;
    commit;
    exit when v_more is false;
    if v_more is null then
      v_locked := v_locked + 1;
      if v_locked = 10 then
        raise warning 'the daily upkeep could not get its locks; the next run tries again';
        exit;
      end if;
      perform pg_catalog.pg_sleep(1);
    end if;
  end loop;
end
$$;
comment on procedure budget.run_upkeep() is 'The daily upkeep, in small transactions. Not within a transaction.';
revoke all on procedure budget.run_upkeep() from public;
grant execute on procedure budget.run_upkeep() to budget_reconciler, budget_admin;
