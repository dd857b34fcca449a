-- budget.create_key: a new key of a project. The secret is returned once and only its hash is kept.
-- options: expires_at, allowed_models, request_ceiling_usd, default_max_output_tokens, max_output_tokens.
-- errors: LB101 unknown org or project, bad or taken name, bad option.
create or replace function budget.create_key(
  p_org text, p_project text, p_name text, p_options jsonb default '{}', out key_id bigint, out secret text
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_org_id bigint := budget_internal.find_org(coalesce(p_org, ''));
  v_project_id bigint := budget_internal.find_scope(v_org_id, 'project', p_project);
  v_models text[];
  v_expires_at timestamptz;
begin
  perform budget_internal.check_options('options', p_options, array[
    'expires_at', 'allowed_models', 'request_ceiling_usd', 'default_max_output_tokens', 'max_output_tokens'
  ]);
  if jsonb_typeof(p_options -> 'allowed_models') = 'array' and not exists (
    select 1 from jsonb_array_elements(p_options -> 'allowed_models') m where jsonb_typeof(m) <> 'string'
  ) then
    v_models := array(select jsonb_array_elements_text(p_options -> 'allowed_models'));
  elsif p_options ->> 'allowed_models' is not null then
    perform budget_internal.fail('LB101', 'allowed_models must be an array of model names', '');
  end if;
  begin
    v_expires_at := (p_options ->> 'expires_at')::timestamptz;
  exception when invalid_datetime_format or datetime_field_overflow then
    perform budget_internal.fail('LB101', 'expires_at must be a timestamp, for example 2027-01-31T00:00:00Z', '');
  end;

  key_id := budget_internal.insert_scope(v_org_id, 'key', p_name, v_project_id);
  insert into budget_internal.keys (
    org_id, key_id, project_id, chain, allowed_models, request_ceiling_nano_usd, default_max_output_tokens,
    max_output_tokens, expires_at
  ) values (
    v_org_id, key_id, v_project_id, '{}', v_models, budget_internal.option_usd(p_options, 'request_ceiling_usd'),
    budget_internal.option_bigint(p_options, 'default_max_output_tokens'),
    budget_internal.option_bigint(p_options, 'max_output_tokens'), v_expires_at
  );
  update budget_internal.keys k
  set chain = budget_internal.resolve_chain(v_org_id, create_key.key_id)
  where k.key_id = create_key.key_id;

  -- 244 random bits from the server's strong generator; the digest spreads them over 256.
  secret := 'pgb_' || encode(sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 'hex');
  insert into budget_internal.key_secrets (org_id, key_id, secret_hash, last_four, created_at)
  values (v_org_id, key_id, budget_internal.key_secret_hash(secret), right(secret, 4), budget_internal.clock());
end
$$;
comment on function budget.create_key(text, text, text, jsonb) is
  'Create a key; returns its id and its secret, which is shown this once. LB101 on bad input.';
revoke all on function budget.create_key(text, text, text, jsonb) from public;
grant execute on function budget.create_key(text, text, text, jsonb) to budget_admin;
