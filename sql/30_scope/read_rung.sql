-- budget_internal.read_rung: one rung of a ladder as its row, without a scope.
-- errors: LB101 names the rung by its place.
create or replace function budget_internal.read_rung(p_rung jsonb, p_place integer) returns budget_internal.rungs
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_field text := format('rung %s', p_place);
  v_named jsonb;
  v_feature text;
  v_rung budget_internal.rungs;
begin
  perform budget_internal.check_options(
    v_field, p_rung, array['name', 'model', 'max_output_tokens', 'features_off', 'wait_seconds', 'refuse']
  );
  -- The helpers name the member; the place goes before it.
  select jsonb_object_agg(v_field || ' ' || m.key, m.value) into v_named from jsonb_each(p_rung) m where m.value <> 'null';
  v_rung.place := p_place;
  v_rung.name := budget_internal.option_name(v_named, v_field || ' name');
  v_rung.model := budget_internal.option_name(v_named, v_field || ' model');
  v_rung.max_output_tokens := budget_internal.option_bigint(v_named, v_field || ' max_output_tokens');
  v_rung.features_off := coalesce(budget_internal.option_names(v_named, v_field || ' features_off', 20), '{}');
  if v_rung.name is null then
    perform budget_internal.fail('LB101', format('%s name is missing', v_field), '');
  end if;
  select f into v_feature
  from unnest(v_rung.features_off) f
  where not exists (select 1 from budget_internal.charge_kinds k where k.feature = f)
  limit 1;
  if v_feature is not null then
    perform budget_internal.fail(
      'LB101', format('%s features_off has an unknown feature %s', v_field, to_json(v_feature)),
      format('Known features: %s.', (
        select string_agg(distinct k.feature, ', ') from budget_internal.charge_kinds k
      ))
    );
  end if;
  if v_named ? (v_field || ' wait_seconds') then
    perform budget_internal.check_setting(v_field || ' wait_seconds', v_named -> (v_field || ' wait_seconds'), 3600);
    v_rung.wait_seconds := (v_named -> (v_field || ' wait_seconds'))::integer;
  end if;
  if v_named ? (v_field || ' refuse') and v_named -> (v_field || ' refuse') <> 'true' then
    perform budget_internal.fail('LB101', format('%s refuse must be true where it is given', v_field), '');
  end if;
  v_rung.action := case
    when v_named ? (v_field || ' refuse') then 'refuse' when v_rung.wait_seconds is not null then 'wait' else 'grant'
  end;
  if (v_rung.model is not null or v_rung.max_output_tokens is not null or cardinality(v_rung.features_off) > 0)::integer
     + (v_rung.wait_seconds is not null)::integer + (v_named ? (v_field || ' refuse'))::integer <> 1 then
    perform budget_internal.fail(
      'LB101', format('%s must do one thing: change the request (model, max_output_tokens, features_off), wait, or refuse', v_field), ''
    );
  end if;
  return v_rung;
end
$$;
revoke all on function budget_internal.read_rung(jsonb, integer) from public;
comment on function budget_internal.read_rung(jsonb, integer) is 'Validate one rung of a ladder; LB101 names its place.';
