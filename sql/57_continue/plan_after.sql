-- budget_internal.plan_after: the routes of an open reservation from one attempt on, as reserve gave them.
create or replace function budget_internal.plan_after(p_route_ids bigint[], p_attempt integer) returns jsonb
language plpgsql stable
as $$
begin
  return (
    select jsonb_agg(
      jsonb_build_object('provider', t.provider, 'account', c.name, 'upstream_model', t.upstream_model) order by i.place
    )
    from unnest(p_route_ids[p_attempt:]) with ordinality i (route_id, place)
    join budget_internal.routes t on t.route_id = i.route_id
    join budget_internal.scopes c on c.scope_id = t.account_id
  );
end
$$;
revoke all on function budget_internal.plan_after(bigint[], integer) from public;
comment on function budget_internal.plan_after(bigint[], integer) is 'Routes from an attempt on.';
