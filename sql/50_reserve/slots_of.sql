-- budget_internal.slots_of: every period that the requests of a batch may be held against, each once. A run that no call has
-- made yet has one too, with the ceiling of the request that names it first.
create or replace function budget_internal.slots_of(p_admissions budget_internal.admission[], p_now timestamptz)
returns budget_internal.slot[]
language plpgsql stable
as $$
declare
  v_budget_ids constant bigint[] := array(
    select distinct b from unnest(p_admissions) a, unnest(a.budget_ids) b where a.code is null
  );
  v_slots budget_internal.slot[];
begin
  v_slots := array(select s from budget_internal.current_slots(v_budget_ids, p_now) s);
  if not exists (select 1 from unnest(p_admissions) a where a.code is null and a.run_name is not null and a.run_id is null) then
    return v_slots;
  end if;
  return v_slots || array(
    select (
      budget_internal.run_lock_key(r.key_id, r.run_name), r.org_id, null, '-infinity', 'infinity', true, r.key_id,
      r.run_name, r.run_limit_nano_usd, r.run_max_grants, null, null
    )::budget_internal.slot
    from (
      select distinct on (a.key_id, a.run_name) a.*
      from unnest(p_admissions) a
      where a.code is null and a.run_name is not null and a.run_id is null
      order by a.key_id, a.run_name, a.item
    ) r
  );
end
$$;
revoke all on function budget_internal.slots_of(budget_internal.admission[], timestamptz) from public;
comment on function budget_internal.slots_of(budget_internal.admission[], timestamptz) is 'Periods of a batch.';
