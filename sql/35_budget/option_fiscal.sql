-- budget_internal.option_fiscal: month or day on which the fiscal year starts: as given, else as it was; null: the calendar's.
-- errors: LB101 out of range, or a period other than quarter and year.
create or replace function budget_internal.option_fiscal(
  p_options jsonb, p_name text, p_most integer, p_period budget.period_kind, p_old smallint
) returns smallint
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_given bigint := budget_internal.option_bigint(p_options, p_name);
begin
  if v_given > p_most then
    perform budget_internal.fail('LB101', format('%s must be a whole number from 1 to %s, not %s', p_name, p_most, v_given), '');
  end if;
  if p_period not in ('quarter', 'year') then
    if v_given is not null then
      perform budget_internal.fail('LB101', format('%s is for the periods quarter and year, not for %s', p_name, p_period), '');
    end if;
    return null;
  end if;
  return case when p_options ? p_name then v_given else p_old end;
end
$$;
revoke all on function budget_internal.option_fiscal(jsonb, text, integer, budget.period_kind, smallint) from public;
comment on function budget_internal.option_fiscal(jsonb, text, integer, budget.period_kind, smallint) is
  'Read the start of the fiscal year from options; LB101 names it.';
