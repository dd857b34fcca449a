-- budget_internal.close_due: end what the reconciler picked, together or, where one row breaks the batch, each on its own.
create or replace function budget_internal.close_due(p_reports jsonb, out charged integer, out failed integer)
language plpgsql volatile
as $$
declare
  v_report jsonb;
  v_charged integer;
  v_failed integer;
begin
  select count(*) filter (where c.status <> 'deferred'), count(*) filter (where c.status = 'deferred')
  into charged, failed
  from budget_internal.close_reservations(p_reports) c;
exception when others then
  -- Waiting too long, a deadlock, a server going down: no fault of the rows, and no try of theirs.
  if sqlstate !~ '^(22|23|LB)' then
    raise;
  end if;
  -- One row broke the batch in a way that judging did not foresee: row by row, each on its own.
  charged := 0;
  failed := 0;
  for v_report in select jsonb_array_elements(p_reports) loop
    begin
      select count(*) filter (where c.status <> 'deferred'), count(*) filter (where c.status = 'deferred')
      into v_charged, v_failed
      from budget_internal.close_reservations(jsonb_build_array(v_report)) c;
      charged := charged + v_charged;
      failed := failed + v_failed;
    exception when others then
      if sqlstate !~ '^(22|23|LB)' then
        raise;
      end if;
      failed := failed + 1;
      perform budget_internal.defer_closures(
        array[row(
          1, (v_report ->> 'reservation_id')::uuid, null, null, null, null, v_report ->> 'outcome', null, null, null, null, sqlstate, null
        )::budget_internal.closure],
        jsonb_build_array(v_report), budget_internal.clock()
      );
    end;
  end loop;
end
$$;
revoke all on function budget_internal.close_due(jsonb) from public;
comment on function budget_internal.close_due(jsonb) is 'End reservations for the reconciler; a row that breaks the batch is put off.';
