-- budget_internal.settlement_defect: what is wrong with one report of a batch; null when it can be booked.
-- Usage is not judged here: a call that may have cost money is charged however bad its numbers are.
create or replace function budget_internal.settlement_defect(p_report jsonb) returns text
language plpgsql immutable
as $$
declare
  v_cost jsonb := coalesce(p_report -> 'provider_cost_usd', 'null');
begin
  if jsonb_typeof(p_report) is distinct from 'object' then
    return 'a settlement must be a JSON object';
  end if;
  if coalesce(p_report ->> 'reservation_id', '') !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then
    return 'reservation_id must be a UUID';
  end if;
  if coalesce(p_report ->> 'outcome', '') not in ('finished', 'estimated', 'unknown', 'released', 'unsent') then
    return 'outcome must be finished, estimated, unknown, released or unsent';
  end if;
  if v_cost <> 'null' and (jsonb_typeof(v_cost) <> 'number' or v_cost::numeric < 0 or v_cost::numeric > 9000000000) then
    return 'provider_cost_usd must be an amount from 0 to 9000000000';
  end if;
  return null;
end
$$;
revoke all on function budget_internal.settlement_defect(jsonb) from public;
comment on function budget_internal.settlement_defect(jsonb) is 'What is wrong with a settlement report, or null.';
