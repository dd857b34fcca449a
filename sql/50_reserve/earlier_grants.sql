-- budget_internal.earlier_grants: what earlier calls with these request ids were granted, open or ended, as
-- {"<key id> <request id>": {...}}. Called under the locks of the request ids; one statement reads both tables, so a
-- reservation that ends meanwhile is seen in exactly one of them.
create or replace function budget_internal.earlier_grants(p_admissions budget_internal.admission[], p_now timestamptz)
returns jsonb
language plpgsql stable
as $$
declare
  v_since constant timestamptz := p_now - make_interval(days => (
    select max(a.idempotency_days) from unnest(p_admissions) a where a.key_id is not null and a.request_id is not null
  ));
begin
  -- As a rule there are none: whether is asked first. A list of two lookups by key, each for itself, whatever the planner
  -- believes of these tables.
  if v_since is null or not exists (
    select 1
    from unnest(p_admissions) a
    cross join lateral (
      select from budget_internal.reservations r where r.key_id = a.key_id and r.request_id = a.request_id
      union all
      select from budget_internal.ledger_entries l
      where l.key_id = a.key_id and l.request_id = a.request_id and l.booked_at > v_since and l.booked_at < p_now + interval '1 month'
      offset 0
    ) e
    where a.request_id is not null
  ) then
    return jsonb '{}';
  end if;
  return (
    with asked as (
      select distinct a.key_id, a.request_id, a.idempotency_days
      from unnest(p_admissions) a
      where a.key_id is not null and a.request_id is not null and a.rung_place = 0
    ), earlier as (
      select a.key_id, a.request_id, r.reservation_id, r.body_hash, r.holder, r.reserved_nano_usd, r.output_tokens,
        'open' as state, r.route_ids, r.rung, r.rung_changes, r.cap_output_tokens
      from asked a
      cross join lateral (
        select r.* from budget_internal.reservations r where r.key_id = a.key_id and r.request_id = a.request_id
        -- Here and below by its key, whatever the planner believes of these tables.
        offset 0
      ) r
      union all
      select a.key_id, a.request_id, l.reservation_id, l.body_hash, null, l.reserved_nano_usd, null, l.kind::text,
        array[l.route_id], l.rung, null, null
      from asked a
      cross join lateral (
        select l.*
        from budget_internal.ledger_entries l
        where l.key_id = a.key_id and l.request_id = a.request_id
          and l.booked_at > p_now - make_interval(days => a.idempotency_days)
          -- The partitions in question, no others are opened. A clock may have gone back since, though not by a month.
          and l.booked_at > v_since and l.booked_at < p_now + interval '1 month'
          and l.kind not in ('leg', 'trued_up') and (l.outcome <> 'unsent' or l.kind <> 'released')
        offset 0
      ) l
    )
    select coalesce(jsonb_object_agg(e.key_id || ' ' || e.request_id, jsonb_build_object(
      'reservation_id', e.reservation_id, 'body_hash', e.body_hash, 'holder', e.holder, 'reserved', e.reserved_nano_usd,
      'output_tokens', e.output_tokens, 'state', e.state, 'rung', e.rung,
      'rung_changes', e.rung_changes, 'cap_output_tokens', e.cap_output_tokens,
      'routes', (
        select jsonb_agg(
          jsonb_build_object('provider', t.provider, 'account', c.name, 'upstream_model', t.upstream_model) order by i.place
        )
        from unnest(e.route_ids) with ordinality i (route_id, place)
        join budget_internal.routes t on t.route_id = i.route_id
        join budget_internal.scopes c on c.scope_id = t.account_id
      )
    )), '{}')
    from earlier e
  );
end
$$;
revoke all on function budget_internal.earlier_grants(budget_internal.admission[], timestamptz) from public;
comment on function budget_internal.earlier_grants(budget_internal.admission[], timestamptz) is
  'Grants that request ids were given before.';
