-- budget_internal.fits_whole: whether every request of a batch can be granted as it was asked, one beside the other. Then their
-- order decides nothing, and they are granted at once. False says nothing: they are then decided one by one.
create or replace function budget_internal.fits_whole(
  p_admissions budget_internal.admission[], p_rooms budget_internal.rooms, p_rates budget_internal.rates
) returns boolean
language plpgsql stable
as $$
begin
  if exists (
    select 1
    from unnest(p_admissions) a
    where a.rung_place = 0
      and (a.code is not null or a.cost_nano_usd > a.ceiling_nano_usd or a.run_name is not null and a.run_id is null)
  ) then
    return false;
  end if;
  if exists (
    select 1
    from (
      select s.slot, count(*) as grants, case when count(*) = count(a.cost_nano_usd) then sum(a.cost_nano_usd) end as cost
      from unnest(p_admissions) a
      cross join lateral unnest(a.slots) s (slot)
      where a.rung_place = 0
      group by s.slot
    ) t
    cross join lateral (
      select p_rooms.enforcements[t.slot] as enforcement, p_rooms.spent[t.slot] as spent, p_rooms.held[t.slot] as held,
        coalesce(p_rooms.limits[t.slot], 9000000000000000000) as limit_nano_usd
    ) r
    where p_rooms.closed[t.slot] or p_rooms.grants[t.slot] + t.grants > p_rooms.max_grants[t.slot] or case r.enforcement
      when 'strict' then (t.cost <= r.limit_nano_usd - greatest(0, r.spent) - greatest(0, r.held)) is not true
      when 'check' then r.spent >= r.limit_nano_usd
      else false
    end
  ) then
    return false;
  end if;
  if cardinality(p_rates.scope_ids) = 0 then
    return true;
  end if;
  return not exists (
    select 1
    from (
      select r.scope_id, count(*) as requests, sum(a.input_tokens + a.output_tokens::numeric * a.choices) as tokens
      from unnest(p_admissions) a
      cross join lateral unnest(a.rate_scope_ids) r (scope_id)
      where a.rung_place = 0
      group by r.scope_id
    ) t
    join unnest(p_rates.scope_ids, p_rates.rpm, p_rates.tpm, p_rates.requests, p_rates.tokens)
      w (scope_id, rpm, tpm, requests, tokens) on w.scope_id = t.scope_id
    where w.requests + t.requests > w.rpm or w.tokens + t.tokens > w.tpm
  );
end
$$;
revoke all on function budget_internal.fits_whole(
  budget_internal.admission[], budget_internal.rooms, budget_internal.rates
) from public;
comment on function budget_internal.fits_whole(
  budget_internal.admission[], budget_internal.rooms, budget_internal.rates
) is 'Whether a batch fits as a whole.';
