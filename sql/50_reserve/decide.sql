-- budget_internal.decide: whether one way of granting a request fits all that applies to it, in the order of the codes: requests
-- a minute, tokens a minute, the key's ceiling, the budgets. Changes nothing: reserve and explain both ask here.
-- The output allowance shrinks to what a token limit leaves; a token limit refuses only when the input and one token for
-- each choice do not fit: what is above the whole of it as over the limit, since no minute can have it.
create or replace function budget_internal.decide(
  p_request budget_internal.admission, p_rooms budget_internal.rooms, p_rates budget_internal.rates
) returns budget_internal.decision
language plpgsql stable
as $$
declare
  v_decision budget_internal.decision;
  v_scope_id bigint;
  v_room bigint;
  v_refusal record;
begin
  v_decision.output_tokens := p_request.output_tokens;
  v_decision.cost_nano_usd := p_request.cost_nano_usd;
  foreach v_scope_id in array p_request.rate_scope_ids loop
    v_decision.rate := array_position(p_rates.scope_ids, v_scope_id);
    if p_rates.requests[v_decision.rate] >= p_rates.rpm[v_decision.rate] then
      v_decision.code := 'rate_limit_exceeded';
      return v_decision;
    end if;
  end loop;
  -- A limit that can never be met comes before one that is full for now: who waits for that would wait in vain.
  foreach v_scope_id in array p_request.rate_scope_ids loop
    v_decision.rate := array_position(p_rates.scope_ids, v_scope_id);
    if p_rates.tpm[v_decision.rate] < p_request.input_tokens + least(1, p_request.output_tokens) * p_request.choices then
      v_decision.code := 'request_over_limit';
      return v_decision;
    end if;
  end loop;
  foreach v_scope_id in array p_request.rate_scope_ids loop
    v_decision.rate := array_position(p_rates.scope_ids, v_scope_id);
    if p_rates.tpm[v_decision.rate] is not null then
      v_room := p_rates.tpm[v_decision.rate] - p_rates.tokens[v_decision.rate] - p_request.input_tokens;
      if v_room < least(1, p_request.output_tokens) * p_request.choices then
        v_decision.code := 'tokens_limit_exceeded';
        return v_decision;
      end if;
      v_decision.output_tokens := least(v_decision.output_tokens, v_room / p_request.choices);
    end if;
  end loop;
  if v_decision.output_tokens < p_request.output_tokens and v_decision.cost_nano_usd is not null then
    v_decision.cost_nano_usd := budget_internal.plan_cost(
      p_request.price_ids, p_request.variant, p_request.input_tokens, v_decision.output_tokens::numeric * p_request.choices,
      p_request.features,
      -- The minute in which the grant is stamped; a window opens on the minute.
      p_rates.minutes[v_decision.rate]
    );
  end if;

  -- From here on no limit of a minute refuses.
  v_decision.rate := null;
  if v_decision.cost_nano_usd > p_request.ceiling_nano_usd then
    v_decision.code := 'request_over_limit';
    return v_decision;
  end if;
  -- Not by a query: this is asked for each request of a batch.
  v_refusal := budget_internal.refusing_slot(
    v_decision.cost_nano_usd, p_request.fits_around, p_request.slots, p_rooms.enforcements, p_rooms.limits, p_rooms.spent,
    p_rooms.held, p_rooms.max_grants, p_rooms.grants, p_rooms.closed
  );
  v_decision.slot := v_refusal.slot;
  v_decision.code := v_refusal.code;
  return v_decision;
end
$$;
revoke all on function budget_internal.decide(
  budget_internal.admission, budget_internal.rooms, budget_internal.rates
) from public;
comment on function budget_internal.decide(
  budget_internal.admission, budget_internal.rooms, budget_internal.rates
) is 'Whether a request fits; code null when it does.';
