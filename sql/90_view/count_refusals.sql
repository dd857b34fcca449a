-- budget.count_refusals: add up requests that were refused, by minute, scope and code. Called by proxies every few seconds, not
-- by reserve: a refused request writes nothing. A proxy that dies takes its last seconds of counts along.
-- counts: [{"key", "scope_kind", "scope_name", "code", "count", "minute_at"}, ...]; key: the secret, or sha256:<hex>.
--         The scope is the one that refused, in the key's org; one that is not known counts as the key's own, and an unknown
--         key as nobody's. minute_at: null, in the future or more than ten minutes ago is the current minute.
-- locks:  the rows counted, in one order: two callers never wait for each other in a circle.
-- errors: LB101 names the field.
-- repeats: counted again.
create or replace function budget.count_refusals(p_counts jsonb) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_minute timestamptz := date_trunc('minute', budget_internal.clock());
  v_defect text;
begin
  if jsonb_typeof(p_counts) is distinct from 'array' or jsonb_array_length(p_counts) > 10000 then
    perform budget_internal.fail('LB101', 'counts must be a JSON array of at most 10000 counts', '');
  end if;
  select format('counts[%s]%s', c.place - 1, budget_internal.refusal_defect(c.value)) into v_defect
  from jsonb_array_elements(p_counts) with ordinality c (value, place)
  where budget_internal.refusal_defect(c.value) is not null
  order by c.place
  limit 1;
  if v_defect is not null then
    perform budget_internal.fail('LB101', v_defect, '');
  end if;

  insert into budget_internal.refusal_minutes as m (org_id, scope_id, minute_at, code, refusals)
  select t.org_id, t.scope_id, t.minute_at, t.code, sum(t.refusals)::bigint
  from (
    select
      coalesce(k.org_id, 0) as org_id,
      coalesce(s.scope_id, k.key_id, 0) as scope_id,
      case when a.minute_at between v_minute - interval '10 minutes' and v_minute then a.minute_at else v_minute end as minute_at,
      c ->> 'code' as code,
      (c ->> 'count')::bigint as refusals
    from jsonb_array_elements(p_counts) c
    cross join lateral (
      select date_trunc('minute', budget_internal.option_moment(c, 'minute_at')) as minute_at
    ) a
    left join budget_internal.key_secrets h on h.secret_hash = budget_internal.key_secret_hash(c ->> 'key')
    left join budget_internal.keys k on k.key_id = h.key_id
    left join budget_internal.scopes s on s.deleted_at is null
      and s.kind = (c ->> 'scope_kind')::budget.scope_kind and s.name = c ->> 'scope_name'
      and case s.kind when 'account' then k.org_id is not null and s.org_id = 0
        when 'run' then s.parent_id = k.key_id else s.org_id = k.org_id end
  ) t
  group by t.org_id, t.scope_id, t.minute_at, t.code
  order by t.minute_at, t.scope_id, t.code, t.org_id
  on conflict (minute_at, scope_id, code, org_id) do update set refusals = m.refusals + excluded.refusals;
end
$$;
comment on function budget.count_refusals(jsonb) is
  'Add to the counts of refused requests, by minute, scope and code; budget.refusal_count shows them. LB101 names the field.';
revoke all on function budget.count_refusals(jsonb) from public;
grant execute on function budget.count_refusals(jsonb) to budget_gateway, budget_admin;
