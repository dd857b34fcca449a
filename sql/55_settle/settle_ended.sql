-- budget_internal.settle_ended: a report for a reservation that is not open any more. Called under its period locks.
--   the same report again            repeated, with what was booked
--   a report after a whole-hold charge  trues it up, once
--   another report                   settlement_conflict
--   no such reservation              unknown_reservation
create or replace function budget_internal.settle_ended(p_item integer, p_report jsonb, p_now timestamptz)
returns budget.settle_result
language plpgsql volatile
as $$
declare
  v_id uuid := (p_report ->> 'reservation_id')::uuid;
  v_outcome text := p_report ->> 'outcome';
  v_usage jsonb := nullif(nullif(p_report -> 'usage', 'null'), '{}');
  v_entry budget_internal.ledger_entries;
  v_correction budget_internal.ledger_entries;
  v_seen jsonb := nullif(nullif(p_report -> 'usage_seen', 'null'), '{}');
  v_seen_cost numeric;
  v_stated constant numeric := (p_report ->> 'provider_cost_usd')::numeric;
  v_source text;
  v_variant text;
  v_cost numeric;
  v_changed bigint;
  v_lost boolean := false;
begin
  -- The row lock lets one report at a time look for a correction: a reservation without budgets has no period locks.
  select l.* into v_entry
  from budget_internal.ledger_entries l
  where l.reservation_id = v_id and l.kind not in ('leg', 'trued_up')
  for update;
  if v_entry.reservation_id is null then
    return row(p_item, 'rejected', 'unknown_reservation', format('there is no reservation %s', v_id), v_id, null, null, false, null, '{}')::budget.settle_result;
  end if;
  select l.* into v_correction
  from budget_internal.ledger_entries l
  where l.reservation_id = v_id and l.kind = 'trued_up';

  if v_correction.reservation_id is null and v_entry.kind = 'charged' then
    v_variant := coalesce(p_report ->> 'service_tier', v_entry.variant);
    if v_outcome in ('released', 'unsent') and v_usage is null then
      v_cost := 0;
    elsif v_outcome = 'finished' and v_stated is not null and exists (
      select 1
      from budget_internal.routes t
      join budget_internal.account_settings a on a.account_id = t.account_id and a.trusts_stated_cost
      where t.route_id = v_entry.route_id
    ) then
      v_cost := ceil(v_stated * 1000000000);
      v_source := 'provider_cost';
    elsif v_outcome in ('finished', 'estimated') and v_usage is not null and budget_internal.usage_defect(v_usage) is null then
      v_cost := budget_internal.price_usage(v_entry.price_id, v_variant, v_usage, v_entry.reserved_at);
      -- least() passes over null, which must stay: no price, and nothing is known that was not known before.
      if v_outcome = 'estimated' and v_cost is not null then
        if v_seen is not null and budget_internal.usage_defect(v_seen) is null then
          v_seen_cost := budget_internal.price_usage(v_entry.price_id, v_variant, v_seen, v_entry.reserved_at);
        end if;
        v_cost := greatest(least(v_cost, greatest(v_entry.reserved_nano_usd, v_entry.amount_nano_usd)), v_seen_cost);
      end if;
    end if;
    if v_cost > 1000000000000000 then
      v_cost := null;
    end if;
  end if;

  if v_cost is not null then
    v_cost := v_cost - v_entry.amount_nano_usd;
    update budget_internal.periods p
    set spent_nano_usd = p.spent_nano_usd + v_cost,
      -- The correction of a charge from before a reset belongs to what the reset has forgiven.
      forgiven_nano_usd = case
        when v_entry.booked_at < p.reset_at then greatest(0, p.forgiven_nano_usd + v_cost) else p.forgiven_nano_usd
      end
    where p.period_id = any (v_entry.period_ids);
    get diagnostics v_changed = row_count;
    v_lost := v_changed <> cardinality(v_entry.period_ids);
    if v_lost then
      -- One lost period must not keep the others, nor a whole batch, from the correction.
      v_entry.period_ids := array(
        select i.period_id from unnest(v_entry.period_ids) i (period_id)
        where exists (select 1 from budget_internal.periods p where p.period_id = i.period_id)
      );
    end if;
    perform budget_internal.shrink_carves(v_entry.scope_ids[1:1]);
    perform budget_internal.record_crossings(
      v_entry.period_ids, array_fill(v_cost::bigint, array[cardinality(v_entry.period_ids)]), p_now
    );
    update budget_internal.rate_windows w
    set requests = greatest(0, w.requests - (v_outcome = 'unsent' and v_usage is null)::integer),
      tokens = greatest(0, w.tokens - v_entry.rate_tokens + coalesce(budget_internal.used_tokens(
        case when v_usage is null and v_outcome <> 'finished' then 'released' else 'settled' end::budget.entry_kind, v_usage
      ), v_entry.rate_tokens))
    where w.scope_id = any (v_entry.rate_scope_ids) and w.minute_at = v_entry.rate_minute_at;
    perform budget_internal.correct_units(v_entry.org_id, v_entry.scope_ids, v_entry.reserved_at, v_cost::bigint);
    insert into budget_internal.ledger_entries (
      org_id, booked_at, kind, reservation_id, key_id, scope_ids, period_ids, amount_nano_usd, reserved_nano_usd, source,
      outcome, usage, provider_cost_usd, overrun, flags, model, route_id, price_id, variant, request_id, body_hash,
      reserved_at, note, rung, attempt
    ) values (
      v_entry.org_id, p_now, 'trued_up', v_id, v_entry.key_id, v_entry.scope_ids, v_entry.period_ids, v_cost,
      v_entry.reserved_nano_usd,
      coalesce(v_source, case when v_usage is null then 'none' when v_outcome = 'finished' then 'usage' else 'bound' end),
      v_outcome, v_usage, v_stated, v_cost > 0,
      array_remove(array[
        'late',
        case v_outcome when 'estimated' then 'estimated' end,
        case when p_report -> 'clamped' is not distinct from 'true' then 'usage_clamped' end,
        case when v_lost then 'missing_period' end
      ], null),
      v_entry.model, v_entry.route_id, v_entry.price_id, v_variant, v_entry.request_id, v_entry.body_hash,
      v_entry.reserved_at, budget_internal.short_note(p_report -> 'note'), v_entry.rung, v_entry.attempt
    ) returning * into v_correction;
    return row(
      p_item, 'trued_up', null, null, v_id, v_entry.amount_nano_usd + v_correction.amount_nano_usd, v_entry.reserved_nano_usd,
      v_correction.overrun, v_correction.source, v_correction.flags)::budget.settle_result;
  end if;

  if (v_correction.reservation_id is not null and v_correction.outcome = v_outcome and v_correction.usage is not distinct from v_usage
      and v_correction.provider_cost_usd is not distinct from v_stated)
     or (v_entry.outcome = v_outcome and v_entry.usage is not distinct from v_usage
      and v_entry.provider_cost_usd is not distinct from v_stated)
     -- Nothing new is known about a hold that was charged as unknown.
     or (v_entry.kind = 'charged' and v_correction.reservation_id is null) then
    return row(
      p_item, 'repeated', null, null, v_id, v_entry.amount_nano_usd + coalesce(v_correction.amount_nano_usd, 0),
      v_entry.reserved_nano_usd, v_entry.overrun or coalesce(v_correction.overrun, false),
      coalesce(v_correction.source, v_entry.source), coalesce(v_correction.flags, v_entry.flags))::budget.settle_result;
  end if;
  return row(
    p_item, 'rejected', 'settlement_conflict',
    format('reservation %s was settled before with another report; the first one stands', v_id),
    v_id, v_entry.amount_nano_usd + coalesce(v_correction.amount_nano_usd, 0), v_entry.reserved_nano_usd, v_entry.overrun,
    v_entry.source, v_entry.flags)::budget.settle_result;
end
$$;
revoke all on function budget_internal.settle_ended(integer, jsonb, timestamptz) from public;
comment on function budget_internal.settle_ended(integer, jsonb, timestamptz) is
  'Answer a report for an ended reservation: repeat, true-up, conflict or unknown.';
