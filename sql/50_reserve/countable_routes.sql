-- budget_internal.countable_routes: all that a request may be sent to, as it was asked or by its ladder. Which tokens its input
-- has depends on these; a closer bound must hold for all of them.
create or replace function budget_internal.countable_routes(p_key_id bigint, p_model text) returns jsonb
language plpgsql stable
as $$
declare
  v_key budget_internal.keys;
begin
  select k.* into v_key from budget_internal.keys k where k.key_id = p_key_id;
  return (
    select jsonb_agg(distinct jsonb_build_object('provider', r.provider, 'upstream_model', r.upstream_model))
    from (
      select p_model as model
      union
      select g.model
      from budget_internal.rungs g
      where g.scope_id = (
        select l.scope_id
        from unnest(array[v_key.key_id, v_key.project_id, v_key.org_id]) with ordinality l (scope_id, place)
        where exists (select 1 from budget_internal.rungs o where o.scope_id = l.scope_id)
        order by l.place
        limit 1
      )
    ) m
    join budget_internal.routes r on r.model = m.model and r.org_id = case
      when exists (select 1 from budget_internal.routes o where o.org_id = v_key.org_id and o.model = m.model)
        then v_key.org_id
      else 0
    end
  );
end
$$;
revoke all on function budget_internal.countable_routes(bigint, text) from public;
comment on function budget_internal.countable_routes(bigint, text) is
  'Where a request may go, by its plan and its ladder.';
