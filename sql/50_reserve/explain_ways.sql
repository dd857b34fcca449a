-- budget_internal.explain_ways: what reserve would answer to one request, and how each way of granting it fared, in the order
-- in which reserve tries them: as asked, with a tighter input bound, then the rungs of the ladder.
--   outcome  granted    this way fits, and is taken
--            refused    it does not, with the code and who refused
--            wait       a rung that lets the caller wait for others' holds
--            refuse     a rung that ends the ladder
--            not_tried  an earlier way was taken, or what is wrong is wrong on every rung
-- The same steps as reserve_batch takes, on the same functions; tests hold the two together.
create or replace function budget_internal.explain_ways(
  p_ways budget_internal.admission[], p_slots budget_internal.slot[], p_rooms budget_internal.rooms,
  p_rates budget_internal.rates, p_now timestamptz,
  out code text, out message text, out rung text, out rung_changes jsonb, out resets_at timestamptz,
  out retry_after_seconds integer, out place integer, out output_tokens bigint, out cost_nano_usd bigint, out ways jsonb
)
language plpgsql stable
as $$
declare
  -- A ladder is for what does not fit.
  v_ladder constant text[] := array['tokens_limit_exceeded', 'request_over_limit', 'budget_exceeded', 'budget_busy'];
  v_way budget_internal.admission;
  v_place integer := 0;
  v_decision budget_internal.decision;
  v_refusal budget.reserve_result;
  v_outcome text;
  v_done boolean := false;
begin
  ways := '[]';
  foreach v_way in array p_ways loop
    v_place := v_place + 1;
    v_refusal := null;
    v_outcome := 'refused';
    if v_way.action <> 'grant' then
      -- A rung that waits is for what others hold now.
      v_outcome := case
        when not v_done and (v_way.action = 'refuse' or code = 'budget_busy') and code = any (v_ladder)
          then v_way.action
        else 'not_tried'
      end;
      v_way.output_tokens := null;
      v_way.cost_nano_usd := null;
    elsif v_done or v_way.rung_place > 0 and code <> all (v_ladder) then
      v_outcome := 'not_tried';
    elsif v_way.code is not null then
      v_refusal.code := v_way.code;
      v_refusal.message := v_way.message;
    else
      v_decision := budget_internal.decide(v_way, p_rooms, p_rates);
      v_way.output_tokens := v_decision.output_tokens;
      v_way.cost_nano_usd := v_decision.cost_nano_usd;
      if v_decision.code is null then
        v_outcome := 'granted';
      else
        v_refusal := budget_internal.describe_refusal(null, v_way, v_decision, p_slots, p_rooms, p_rates, p_now);
      end if;
    end if;

    if v_outcome = 'granted' or v_way.rung_place = 0 then
      place := v_place;
      output_tokens := v_way.output_tokens;
      cost_nano_usd := v_way.cost_nano_usd;
      code := v_refusal.code;
      message := v_refusal.message;
      resets_at := v_refusal.resets_at;
      retry_after_seconds := v_refusal.retry_after_seconds;
    end if;
    if v_outcome not in ('refused', 'not_tried') then
      v_done := true;
      rung := v_way.rung;
      rung_changes := v_way.rung_changes;
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
