-- budget.reconcile_one: the manual way, for one reservation: charges it if it is stale, books its kept report if it has
-- one, whatever its backoff or quarantine.
-- errors: LB301 unknown reservation, LB304 it is alive. repeats: returns what was booked.
create or replace function budget.reconcile_one(p_reservation_id uuid) returns budget.settle_result
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_reservation budget_internal.reservations;
  v_entry budget_internal.ledger_entries;
  v_result budget.settle_result;
begin
  perform budget_internal.require_read_committed();
  select r.* into v_reservation from budget_internal.reservations r where r.reservation_id = p_reservation_id;
  if v_reservation.reservation_id is not null then
    select c.* into v_result from budget_internal.close_reservations(
      jsonb_build_array(budget_internal.stale_report(v_reservation))
    ) c;
    if v_result.status is not null then
      v_result.item := 1;
      return v_result;
    end if;
  end if;

  select l.* into v_entry
  from budget_internal.ledger_entries l
  where l.reservation_id = p_reservation_id and l.kind not in ('leg', 'trued_up');
  if v_entry.reservation_id is not null then
    return row(
      1, 'repeated', null, null, p_reservation_id, (
        select sum(l.amount_nano_usd)::bigint from budget_internal.ledger_entries l where l.reservation_id = p_reservation_id
      ), v_entry.reserved_nano_usd, v_entry.overrun, v_entry.source, v_entry.flags)::budget.settle_result;
  end if;
  if v_reservation.reservation_id is not null then
    perform budget_internal.fail(
      'LB304', format('reservation %s is alive: it is stale only after %s', p_reservation_id, v_reservation.stale_at),
      'Settle or release it, or wait.'
    );
  end if;
  perform budget_internal.fail('LB301', format('there is no reservation %s', p_reservation_id), '');
  return null;
end
$$;
comment on function budget.reconcile_one(uuid) is
  'Reconcile one reservation by hand. LB301 unknown, LB304 still alive.';
revoke all on function budget.reconcile_one(uuid) from public;
grant execute on function budget.reconcile_one(uuid) to budget_reconciler, budget_admin;
