-- budget_internal.option_names: an array of names from an options object, each once; null when absent; LB101 otherwise.
create or replace function budget_internal.option_names(p_options jsonb, p_name text, p_most integer default 1000) returns text[]
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v jsonb := p_options -> p_name;
begin
  if v is null or v = 'null' then
    return null;
  end if;
  if jsonb_typeof(v) <> 'array' or jsonb_path_exists(v, 'strict $[*] ? (@.type() != "string")') then
    perform budget_internal.fail('LB101', format('%s must be an array of names, not %s', p_name, left(v::text, 40)), '');
  end if;
  if jsonb_array_length(v) > p_most then
    perform budget_internal.fail('LB101', format('%s has %s names, at most %s can be', p_name, jsonb_array_length(v), p_most), '');
  end if;
  perform budget_internal.check_name(p_name, n) from jsonb_array_elements_text(v) n;
  return array(select n from jsonb_array_elements_text(v) with ordinality e (n, place) group by n order by min(place));
end
$$;
revoke all on function budget_internal.option_names(jsonb, text, integer) from public;
comment on function budget_internal.option_names(jsonb, text, integer) is 'Read an array of names from options; LB101 names the option.';
