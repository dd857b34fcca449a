-- budget.set_model: the limits of a provider's model; null where unknown.
create or replace function budget.set_model(
  p_provider text, p_model text, p_context_window_tokens bigint, p_max_output_tokens bigint
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform budget_internal.check_name('provider', p_provider);
  perform budget_internal.check_name('model', p_model);
  if p_context_window_tokens < 1 or p_max_output_tokens < 0 then
    perform budget_internal.fail('LB101', 'a model''s limits are whole numbers of tokens, or null where unknown', '');
  end if;
  insert into budget_internal.models as m (provider, model, context_window_tokens, max_output_tokens)
  values (p_provider, p_model, p_context_window_tokens, p_max_output_tokens)
  on conflict (provider, model) do update
  set context_window_tokens = excluded.context_window_tokens, max_output_tokens = excluded.max_output_tokens;
end
$$;
comment on function budget.set_model(text, text, bigint, bigint) is 'Record a model and its limits in tokens. LB101 on bad input.';
revoke all on function budget.set_model(text, text, bigint, bigint) from public;
grant execute on function budget.set_model(text, text, bigint, bigint) to budget_admin;
