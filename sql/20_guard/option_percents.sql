-- budget_internal.option_percents: an array of whole percents from an options object, sorted, each once; null when absent; LB101.
create or replace function budget_internal.option_percents(p_options jsonb, p_name text) returns smallint[]
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v jsonb := p_options -> p_name;
  v_bad jsonb;
begin
  if v is null or v = 'null' then
    return null;
  end if;
  if jsonb_typeof(v) <> 'array' then
    perform budget_internal.fail('LB101', format('%s must be an array of whole percents, not %s', p_name, left(v::text, 40)));
  elsif jsonb_array_length(v) > 20 then
    perform budget_internal.fail('LB101', format('%s has %s entries, at most 20 can be', p_name, jsonb_array_length(v)));
  end if;
  select e into v_bad
  from jsonb_array_elements(v) e
  where case when jsonb_typeof(e) = 'number'
    then e::numeric not between 1 and 1000 or e::numeric <> trunc(e::numeric) else true end
  limit 1;
  if found then
    perform budget_internal.fail(
      'LB101', format('%s must be whole percents from 1 to 1000, not %s', p_name, left(v_bad::text, 40))
    );
  end if;
  return array(select distinct e::numeric::smallint from jsonb_array_elements_text(v) e order by 1);
end
$$;
revoke all on function budget_internal.option_percents(jsonb, text) from public;
comment on function budget_internal.option_percents(jsonb, text) is 'Read an array of percents from options; LB101 names the option.';
