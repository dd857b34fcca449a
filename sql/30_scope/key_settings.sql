-- budget_internal.key_settings: a key's row with the settings of an options object: members that are there change, null takes
-- a setting away. Writes nothing.
-- errors: LB101 names the option.
create or replace function budget_internal.key_settings(p_key budget_internal.keys, p_options jsonb)
returns budget_internal.keys
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_key budget_internal.keys := p_key;
begin
  if p_options ? 'expires_at' then
    v_key.expires_at := budget_internal.option_moment(p_options, 'expires_at');
  end if;
  if p_options ? 'allowed_models' then
    v_key.allowed_models := budget_internal.option_names(p_options, 'allowed_models');
  end if;
  if p_options ? 'request_ceiling_usd' then
    v_key.request_ceiling_nano_usd := budget_internal.option_usd(p_options, 'request_ceiling_usd');
  end if;
  if p_options ? 'default_max_output_tokens' then
    v_key.default_max_output_tokens := budget_internal.option_bigint(p_options, 'default_max_output_tokens');
  end if;
  if p_options ? 'max_output_tokens' then
    v_key.max_output_tokens := budget_internal.option_bigint(p_options, 'max_output_tokens');
  end if;
  if p_options ? 'input_bound' then
    v_key.input_bound := coalesce(
      budget_internal.option_word(p_options, 'input_bound', array['bytes', 'tokenizer', 'chars3', 'bytes4']), 'bytes'
    );
  end if;
  if p_options ? 'allow_unpriced' then
    v_key.allow_unpriced := coalesce(budget_internal.option_boolean(p_options, 'allow_unpriced'), false);
  end if;
  if p_options ? 'run_ceiling_usd' then
    v_key.run_ceiling_nano_usd := budget_internal.option_usd(p_options, 'run_ceiling_usd');
  end if;
  if p_options ? 'run_max_steps' then
    v_key.run_max_steps := budget_internal.option_bigint(p_options, 'run_max_steps');
  end if;
  if p_options ? 'first_output_tokens' then
    v_key.first_output_tokens := budget_internal.option_bigint(p_options, 'first_output_tokens');
  end if;
  return v_key;
end
$$;
revoke all on function budget_internal.key_settings(budget_internal.keys, jsonb) from public;
comment on function budget_internal.key_settings(budget_internal.keys, jsonb) is 'Apply options to the settings of a key; LB101 names the option.';
