-- budget.set_key: change settings of a key; acts on its next request. Only the members that are there change; null takes a
-- setting away. Where the key is in the tree is changed by budget.move_key.
-- locks:  the org.
-- errors: LB101 unknown key, bad option.
create or replace function budget.set_key(p_org text, p_name text, p_options jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_scope record;
  v_key budget_internal.keys;
begin
  v_scope := budget_internal.lock_scope(p_org, 'key', p_name, array['key']);
  perform budget_internal.check_options('options', p_options, array[
    'expires_at', 'allowed_models', 'request_ceiling_usd', 'default_max_output_tokens', 'max_output_tokens', 'input_bound',
    'allow_unpriced', 'run_ceiling_usd', 'run_max_steps', 'first_output_tokens'
  ]);
  select k.* into strict v_key from budget_internal.keys k where k.key_id = v_scope.scope_id for no key update;
  v_key := budget_internal.key_settings(v_key, p_options);
  update budget_internal.keys k
  set allowed_models = v_key.allowed_models,
    request_ceiling_nano_usd = v_key.request_ceiling_nano_usd,
    default_max_output_tokens = v_key.default_max_output_tokens,
    max_output_tokens = v_key.max_output_tokens,
    expires_at = v_key.expires_at,
    input_bound = v_key.input_bound,
    allow_unpriced = v_key.allow_unpriced,
    run_ceiling_nano_usd = v_key.run_ceiling_nano_usd,
    run_max_steps = v_key.run_max_steps, first_output_tokens = v_key.first_output_tokens
  where k.key_id = v_scope.scope_id;
end
$$;
comment on function budget.set_key(text, text, jsonb) is
  'Change settings of a key (those of budget.create_key but for its place); null takes one away. LB101 on bad input.';
revoke all on function budget.set_key(text, text, jsonb) from public;
grant execute on function budget.set_key(text, text, jsonb) to budget_admin;
