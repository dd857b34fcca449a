-- budget_internal.option_word: one of a few words from an options object; null when absent; LB101 otherwise.
create or replace function budget_internal.option_word(p_options jsonb, p_name text, p_words text[]) returns text
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v jsonb := p_options -> p_name;
begin
  if v is null or v = 'null' then
    return null;
  end if;
  if jsonb_typeof(v) <> 'string' or v #>> '{}' <> all (p_words) then
    perform budget_internal.fail(
      'LB101', format('%s must be one of %s, not %s', p_name, array_to_string(p_words, ', '), left(v::text, 40)), ''
    );
  end if;
  return v #>> '{}';
end
$$;
revoke all on function budget_internal.option_word(jsonb, text, text[]) from public;
comment on function budget_internal.option_word(jsonb, text, text[]) is 'Read one of a list of words from options; LB101 names it.';
