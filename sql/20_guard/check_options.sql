-- budget_internal.check_options: an options object with known members only, or LB101.
create or replace function budget_internal.check_options(p_field text, p_options jsonb, p_known text[]) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_unknown text;
begin
  if p_options is null or jsonb_typeof(p_options) <> 'object' then
    perform budget_internal.fail('LB101', format('%s must be a JSON object', p_field), '');
  end if;
  select k into v_unknown from jsonb_object_keys(p_options) k where k <> all (p_known) order by k limit 1;
  if v_unknown is not null then
    perform budget_internal.fail(
      'LB101', format('%s has an unknown member %s', p_field, to_json(v_unknown)),
      format('Known members: %s.', array_to_string(p_known, ', '))
    );
  end if;
end
$$;
revoke all on function budget_internal.check_options(text, jsonb, text[]) from public;
comment on function budget_internal.check_options(text, jsonb, text[]) is 'Refuse unknown members of an options object; LB101.';
