-- budget_internal.explain_ways: what reserve would answer to one request, and how each way of granting it fared, in the order
-- in which reserve tries them: as asked, with a tighter input bound, then the rungs of the ladder.
--   outcome  granted    this way fits, and is taken
--            refused    it does not, with the code and who refused
--            wait       a rung that lets the caller wait for others' holds, or refuse: one that ends the ladder
--            not_tried  an earlier way was taken, or what is wrong is wrong on every rung
-- The same steps as reserve_batch takes, on the same functions; tests hold the two together.
create or replace function budget_internal.explain_ways(
  p_ways budget_internal.admission[], p_slots budget_internal.slot[], p_rooms budget_internal.rooms,
  p_rates budget_internal.rates, p_now timestamptz,
  out result budget.reserve_result, out taken budget_internal.admission, out ways jsonb
)
language plpgsql stable
as $$
declare
  v_way budget_internal.admission;
  v_decision budget_internal.decision;
  v_refusal budget.reserve_result;
  v_outcome text;
  v_done boolean := false;
begin
  ways := '[]';
  foreach v_way in array p_ways loop
    v_decision := null;
    v_refusal := null;
    v_outcome := 'refused';
    if v_way.rung_place = 0 then
      taken := v_way;
      result.status := 'denied';
      result.code := v_way.code;
      result.message := v_way.message;
      result.worst_case_nano_usd := v_way.cost_nano_usd;
    end if;
    if v_done or v_way.rung_place > 0 and result.code not in (
      'tokens_limit_exceeded', 'request_over_limit', 'budget_exceeded', 'budget_busy'
    ) then
      v_outcome := 'not_tried';
    elsif v_way.code is not null then
      v_refusal.code := v_way.code;
    elsif v_way.action <> 'grant' then
      if v_way.action = 'refuse' or result.code = 'budget_busy' then
        v_outcome := v_way.action;
        v_done := true;
        result.rung := v_way.rung;
        result.rung_changes := v_way.rung_changes;
      else
        v_outcome := 'not_tried';
      end if;
    else
      v_decision := budget_internal.decide(v_way, p_rooms, p_rates);
      v_way.output_tokens := v_decision.output_tokens;
      v_way.cost_nano_usd := v_decision.cost_nano_usd;
      if v_decision.code is null then
        v_outcome := 'granted';
        v_done := true;
        taken := v_way;
        result := budget_internal.describe_grant(v_way, p_rooms);
      else
        v_refusal := budget_internal.describe_refusal(null, v_way, v_decision, p_slots, p_rooms, p_rates, p_now);
        if v_way.rung_place = 0 then
          taken := v_way;
          v_refusal.item := result.item;
          v_refusal.status := result.status;
          result := v_refusal;
        end if;
      end if;
    end if;
    if v_way.action <> 'grant' then
      v_way.output_tokens := null;
      v_way.cost_nano_usd := null;
    end if;
    ways := ways || jsonb_build_object(
      'rung', v_way.rung, 'changes', v_way.rung_changes, 'model', v_way.model, 'input_tokens', v_way.input_tokens,
      'output_tokens', v_way.output_tokens, 'worst_case_usd', budget.usd(v_way.cost_nano_usd), 'outcome', v_outcome,
      'code', v_refusal.code, 'scope', v_refusal.scope_kind, 'name', v_refusal.scope_name, 'budget', v_refusal.budget_name
    );
  end loop;
end
$$;
revoke all on function budget_internal.explain_ways(
  budget_internal.admission[], budget_internal.slot[], budget_internal.rooms, budget_internal.rates, timestamptz
) from public;
comment on function budget_internal.explain_ways(
  budget_internal.admission[], budget_internal.slot[], budget_internal.rooms, budget_internal.rates, timestamptz
) is 'The answer of reserve to one request, and how each way of granting it fared.';
