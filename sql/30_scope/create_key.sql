-- budget.create_key: a new key of a project. The secret is returned once and only its hash is kept.
-- options: expires_at, allowed_models, request_ceiling_usd, default_max_output_tokens, max_output_tokens, input_bound
--          (bytes, tokenizer, chars3, bytes4), allow_unpriced, run_ceiling_usd, run_max_steps,
--          first_output_tokens (a hold that grows); unit, member, tags (names).
-- locks:   the org.
-- errors:  LB101 unknown org, project, unit, member or tag, bad or taken name, bad option.
create or replace function budget.create_key(
  p_org text, p_project text, p_name text, p_options jsonb default '{}', out key_id bigint, out secret text
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_project record;
  v_key budget_internal.keys;
begin
  v_project := budget_internal.lock_scope(p_org, 'project', p_project, array['project']);
  perform budget_internal.check_options('options', p_options, array[
    'expires_at', 'allowed_models', 'request_ceiling_usd', 'default_max_output_tokens', 'max_output_tokens', 'input_bound',
    'allow_unpriced', 'run_ceiling_usd', 'run_max_steps', 'first_output_tokens', 'unit', 'member', 'tags'
  ]);
  v_key.input_bound := 'bytes';
  v_key.allow_unpriced := false;
  v_key := budget_internal.key_settings(v_key, p_options);

  key_id := budget_internal.insert_scope(v_project.org_id, 'key', p_name, v_project.scope_id);
  insert into budget_internal.keys (
    org_id, key_id, project_id, chain, allowed_models, request_ceiling_nano_usd, default_max_output_tokens,
    max_output_tokens, expires_at, input_bound, allow_unpriced, run_ceiling_nano_usd, run_max_steps,
    first_output_tokens
  ) values (
    v_project.org_id, key_id, v_project.scope_id, '{}', v_key.allowed_models, v_key.request_ceiling_nano_usd,
    v_key.default_max_output_tokens, v_key.max_output_tokens, v_key.expires_at, v_key.input_bound, v_key.allow_unpriced,
    v_key.run_ceiling_nano_usd, v_key.run_max_steps, v_key.first_output_tokens
  );
  perform budget_internal.place_key(v_project.org_id, key_id, p_options - 'project');
  secret := budget_internal.insert_secret(v_project.org_id, key_id);
end
$$;
comment on function budget.create_key(text, text, text, jsonb) is
  'Create a key; returns its id and its secret, which is shown this once. Options: expires_at, allowed_models, '
  'request_ceiling_usd, default_max_output_tokens, max_output_tokens, input_bound, allow_unpriced, run_ceiling_usd, '
  'run_max_steps, first_output_tokens, unit, member, tags. LB101 on bad input.';
revoke all on function budget.create_key(text, text, text, jsonb) from public;
grant execute on function budget.create_key(text, text, text, jsonb) to budget_admin;
