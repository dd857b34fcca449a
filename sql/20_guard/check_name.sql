-- budget_internal.check_name: a name that can be shown and found again, or LB101.
create or replace function budget_internal.check_name(p_field text, p_name text) returns text
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_name is null or length(p_name) not between 1 and 200 or p_name <> btrim(p_name) or p_name ~ '[\x01-\x1f\x7f]' then
    perform budget_internal.fail(
      'LB101', format('%s must be 1 to 200 printable characters without blanks at the ends', p_field), ''
    );
  end if;
  return p_name;
end
$$;
revoke all on function budget_internal.check_name(text, text) from public;
comment on function budget_internal.check_name(text, text) is 'Validate a name; LB101 names the field.';
