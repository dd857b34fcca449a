-- budget.start_run: give one piece of work of a key (an agent's run) a ceiling in USD and in steps, for all its calls.
-- options: ceiling_usd, max_steps (both at most what the key allows, and that by default), parent_run: carve the ceiling
-- from a run of the same key, which holds it until this one ends.
-- locks:   the periods of the run and its parent, in one statement.
-- errors:  LB101 bad input, LB102 bad key, LB105 isolation.
-- repeats: a run that is there already is returned as running, with the ceiling it began with.
create or replace function budget.start_run(p_key text, p_run text, p_options jsonb default '{}') returns budget.run_result
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_key_id bigint := budget_internal.usable_key(p_key);
  v_key budget_internal.keys;
  v_defect text;
  v_limit bigint;
  v_steps bigint;
  v_parent text;
  v_parent_id bigint;
  v_run_id bigint;
  v_parent_run budget.run_result;
  v_now timestamptz;
begin
  perform budget_internal.require_read_committed();
  perform budget_internal.check_options('options', p_options, array['ceiling_usd', 'max_steps', 'parent_run']);
  v_defect := budget_internal.run_defect(p_options - 'parent_run' || jsonb_build_object('id', p_run));
  v_parent := p_options ->> 'parent_run';
  if v_defect is null and p_options ? 'parent_run' and jsonb_typeof(p_options -> 'parent_run') not in ('string', 'null') then
    v_defect := 'parent_run must be the id of a run';
  end if;
  if v_defect is null and v_parent = p_run then
    v_defect := 'a run cannot be carved from itself';
  end if;
  if v_defect is not null then
    perform budget_internal.fail('LB101', v_defect, '');
  end if;

  perform budget_internal.take_locks(
    array[budget_internal.run_lock_key(v_key_id, p_run)]
    || case when v_parent is not null then array[budget_internal.run_lock_key(v_key_id, v_parent)] else '{}' end
  );
  v_now := budget_internal.clock();
  v_run_id := budget_internal.find_run(v_key_id, p_run);
  if v_run_id is not null then
    return budget_internal.run_result(
      v_run_id, (select case when r.ended_at is null then 'running' else 'ended' end from budget_internal.runs r where r.run_id = v_run_id),
      null, null
    );
  end if;

  select k.* into v_key from budget_internal.keys k where k.key_id = v_key_id;
  v_limit := coalesce(budget_internal.option_usd(p_options, 'ceiling_usd'), v_key.run_ceiling_nano_usd);
  v_steps := coalesce((p_options ->> 'max_steps')::bigint, v_key.run_max_steps);
  if v_limit > v_key.run_ceiling_nano_usd then
    perform budget_internal.fail('LB101', format(
      'ceiling_usd is $%s, but a run of this key may cost at most $%s', budget.usd(v_limit), budget.usd(v_key.run_ceiling_nano_usd)
    ), '');
  end if;
  if v_steps > v_key.run_max_steps then
    perform budget_internal.fail('LB101', format(
      'max_steps is %s, but a run of this key may take at most %s', v_steps, v_key.run_max_steps
    ), '');
  end if;

  if v_parent is not null then
    v_parent_id := budget_internal.find_run(v_key_id, v_parent);
    if v_parent_id is null then
      perform budget_internal.fail('LB101', format('there is no run %s of this key to carve from', to_json(v_parent)), '');
    end if;
    v_parent_run := budget_internal.run_result(v_parent_id, null, null, null);
    if v_parent_run.ended_at is not null then
      perform budget_internal.fail('LB101', format('run %s has ended: nothing can be carved from it', to_json(v_parent)), '');
    end if;
    if v_limit is null then
      perform budget_internal.fail('LB101', 'a run that is carved from another needs ceiling_usd', '');
    end if;
    if v_limit > v_parent_run.available_nano_usd then
      return row(
        'denied', case when v_limit > v_parent_run.ceiling_nano_usd - v_parent_run.spent_nano_usd then 'budget_exceeded' else 'budget_busy' end,
        format('run %s has $%s left of $%s ($%s spent, $%s held), less than $%s', to_json(v_parent),
          budget.usd(v_parent_run.available_nano_usd), budget.usd(v_parent_run.ceiling_nano_usd),
          budget.usd(v_parent_run.spent_nano_usd), budget.usd(v_parent_run.held_nano_usd), budget.usd(v_limit)),
        p_run, v_parent, v_limit, null, null, null, null, v_steps, null, null
      )::budget.run_result;
    end if;
    update budget_internal.periods p
    set held_nano_usd = p.held_nano_usd + v_limit
    from budget_internal.runs r
    where r.run_id = v_parent_id and p.budget_id = r.budget_id;
  end if;
  select o.run_id into v_run_id
  from budget_internal.open_run(v_key.org_id, v_key_id, p_run, v_limit, v_steps, v_parent_id, v_now) o;
  return budget_internal.run_result(v_run_id, 'started', null, null);
end
$$;
comment on function budget.start_run(text, text, jsonb) is
  'Start a run of a key with a ceiling in USD and in steps, or carve it from a parent run. Returns started, running, ended '
  'or denied. Amounts in nano-USD. LB101 bad input, LB102 bad key.';
revoke all on function budget.start_run(text, text, jsonb) from public;
grant execute on function budget.start_run(text, text, jsonb) to budget_gateway, budget_admin;
