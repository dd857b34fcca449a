-- budget_internal.explain_at: the time at which a refused request would fit if nothing else is asked for until then: when the
-- last of what refuses it now has room again. Null: never, or not by waiting alone.
create or replace function budget_internal.explain_at(
  p_way budget_internal.admission, p_slots budget_internal.slot[], p_rooms budget_internal.rooms,
  p_rates budget_internal.rates, p_now timestamptz
) returns timestamptz
language plpgsql stable
as $$
declare
  v_tokens constant bigint := p_way.input_tokens + least(1, p_way.output_tokens) * p_way.choices;
  v_at timestamptz;
begin
  if p_way.code is not null or p_way.cost_nano_usd > p_way.ceiling_nano_usd then
    return null;
  end if;
  select max(w.at) into v_at
  from (
    -- Who refuses, and until when; infinity: for ever.
    select case r.code
      when 'budget_exceeded' then case
        when p_rooms.grants[i.slot] >= p_rooms.max_grants[i.slot] then 'infinity'
        -- In the next period with nothing spent; a raise may be over by then.
        when coalesce(p_way.cost_nano_usd, 1) > budget_internal.limit_in_force(
          b.limit_nano_usd, b.raise_nano_usd, b.raise_until, 0, p_slots[i.slot].ends_at
        ) then 'infinity'
        else p_slots[i.slot].ends_at
      end
      when 'budget_busy' then p_now + make_interval(secs => case
        when p_rooms.closed[i.slot] then 1
        else budget_internal.busy_seconds(
          p_slots[i.slot],
          coalesce(p_way.cost_nano_usd, 1) - (p_rooms.limits[i.slot] - p_rooms.spent[i.slot] - p_rooms.held[i.slot]),
          p_rooms.held[i.slot], p_now
        )
      end)
      else 'infinity'
    end as at
    from unnest(p_way.slots) i (slot)
    left join budget_internal.budgets b on b.budget_id = p_slots[i.slot].budget_id
    cross join lateral budget_internal.refusing_slot(
      p_way.cost_nano_usd, p_way.fits_around, array[i.slot], p_rooms.enforcements, p_rooms.limits, p_rooms.spent,
      p_rooms.held, p_rooms.max_grants, p_rooms.grants, p_rooms.closed
    ) r
    where r.code is not null
    union all
    select case when l.tpm < v_tokens then 'infinity' else l.minute_at + interval '1 minute' end
    from unnest(p_rates.scope_ids, p_rates.minutes, p_rates.rpm, p_rates.tpm, p_rates.requests, p_rates.tokens)
      l (scope_id, minute_at, rpm, tpm, requests, tokens)
    where l.scope_id = any (p_way.rate_scope_ids) and (l.requests >= l.rpm or l.tpm - l.tokens < v_tokens)
  ) w;
  return case when isfinite(v_at) then v_at end;
end
$$;
revoke all on function budget_internal.explain_at(
  budget_internal.admission, budget_internal.slot[], budget_internal.rooms, budget_internal.rates, timestamptz
) from public;
comment on function budget_internal.explain_at(
  budget_internal.admission, budget_internal.slot[], budget_internal.rooms, budget_internal.rates, timestamptz
) is 'When a refused request would fit; null when waiting does not help.';
