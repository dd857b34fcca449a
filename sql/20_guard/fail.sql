-- budget_internal.fail: raise a coded error, as an expression or a statement. Without a hint the error has none: an empty one
-- would be shown as an empty line.
create or replace function budget_internal.fail(p_sqlstate text, p_message text, p_hint text default '') returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  if coalesce(p_hint, '') = '' then
    raise exception using errcode = p_sqlstate, message = p_message;
  end if;
  raise exception using errcode = p_sqlstate, message = p_message, hint = p_hint;
end
$$;
revoke all on function budget_internal.fail(text, text, text) from public;
comment on function budget_internal.fail(text, text, text) is 'Raise an error of class LB.';
