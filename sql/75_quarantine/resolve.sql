-- budget.resolve: what a person decides about a reservation that could not be settled: one that is quarantined, put off as
-- malformed or stale, or charged provisionally.
--   charge   the pinned price of p_usage; without usage the whole hold
--   release  nothing: it is known that nothing was spent
--   retry    forget the tries and the quarantine: the next reconcile takes it again
-- Of a provisional charge, charge with usage and release are its true-up, once, as a late settle would be.
-- locks:   as settle: its periods, units and rate windows in key order, then its row, then period rows.
-- errors:  LB101 bad input, LB103 usage that cannot be priced, LB105 isolation, LB301 unknown, LB302 it ended otherwise,
--          LB304 it is alive.
-- repeats: the same decision again returns what was booked. Every use leaves a row in the audit log.
create or replace function budget.resolve(
  p_reservation_id uuid, p_action text, p_usage jsonb default null, p_note text default null
) returns budget.settle_result
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_report jsonb;
  v_reservation budget_internal.reservations;
  v_org_id bigint;
  v_now timestamptz;
  v_result budget.settle_result;
begin
  perform budget_internal.require_read_committed();
  v_report := budget_internal.resolution_report(p_reservation_id, p_action, p_usage, p_note);
  perform budget_internal.take_locks(budget_internal.settle_lock_keys(array[p_reservation_id]));
  select r.* into v_reservation from budget_internal.reservations r where r.reservation_id = p_reservation_id for update;
  v_now := budget_internal.clock();

  if v_reservation.reservation_id is null then
    v_result := budget_internal.resolve_ended(p_action, v_report, v_now);
  elsif v_reservation.reconciliation_error_type is null and v_reservation.reported is null
    and v_reservation.reconcile_after is null and v_reservation.stale_at >= v_now then
    perform budget_internal.fail(
      'LB304', format('reservation %s is alive: it is stale only after %s', p_reservation_id, v_reservation.stale_at),
      'Settle or release it, or wait.'
    );
  elsif p_action = 'retry' then
    update budget_internal.reservations r
    set reconciliation_attempts = 0, reconciliation_error_type = null, reconcile_after = v_now, reconciliation_quarantined_at = null
    where r.reservation_id = p_reservation_id;
    v_result := row(
      1, 'retried', null, null, p_reservation_id, null, v_reservation.reserved_nano_usd, false, null, '{}'
    )::budget.settle_result;
  else
    v_result := budget_internal.resolve_open(v_reservation, v_report, v_now);
  end if;

  v_org_id := coalesce(v_reservation.org_id, (
    select l.org_id from budget_internal.ledger_entries l where l.reservation_id = p_reservation_id limit 1
  ));
  perform budget_internal.audit_event(
    v_org_id, 'reservation ' || p_reservation_id,
    jsonb_strip_nulls(jsonb_build_object(
      'reserved_nano_usd', v_reservation.reserved_nano_usd, 'error_type', v_reservation.reconciliation_error_type,
      'attempts', v_reservation.reconciliation_attempts, 'quarantined_at', v_reservation.reconciliation_quarantined_at
    )),
    jsonb_strip_nulls(jsonb_build_object(
      'action', p_action, 'usage', p_usage, 'note', p_note, 'status', v_result.status, 'charged_nano_usd', v_result.charged_nano_usd
    ))
  );
  return v_result;
end
$$;
comment on function budget.resolve(uuid, text, jsonb, text) is
  'Decide about a quarantined, malformed or stale reservation or a provisional charge: charge (usage by charge kind; null: the '
  'whole hold), release or retry, with a note of up to 200 characters. LB101 bad input, LB103 usage that cannot be priced, LB301 '
  'unknown, LB302 it ended otherwise, LB304 still alive.';
revoke all on function budget.resolve(uuid, text, jsonb, text) from public;
grant execute on function budget.resolve(uuid, text, jsonb, text) to budget_admin;
