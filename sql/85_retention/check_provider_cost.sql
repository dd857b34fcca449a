-- budget_internal.check_provider_cost: one cost of an import; LB101 names its place.
create or replace function budget_internal.check_provider_cost(p_cost jsonb, p_place bigint) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_field constant text := format('cost %s', p_place);
  v_day text;
  v_cost text;
begin
  perform budget_internal.check_options(v_field, p_cost, array['day', 'model', 'cost_usd']);
  v_day := p_cost ->> 'day';
  v_cost := p_cost ->> 'cost_usd';
  if coalesce(v_day, '') !~ '^20\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$'
    or right(v_day, 2)::integer > extract(day from (left(v_day, 8) || '01')::timestamp + interval '1 month - 1 day') then
    perform budget_internal.fail('LB101', format('%s day must be a date such as 2027-01-31, not %s', v_field, coalesce(left(v_day, 40), 'null')));
  elsif length(p_cost ->> 'model') > 200 then
    perform budget_internal.fail('LB101', format('%s model must not be longer than 200 characters', v_field));
  elsif coalesce(v_cost, '') !~ '^\d{1,10}(\.\d{1,30})?$' or v_cost::numeric > 9000000000 then
    perform budget_internal.fail(
      'LB101', format('%s cost_usd must be an amount from 0 to 9000000000, not %s', v_field, coalesce(left(v_cost, 40), 'null'))
    );
  end if;
end
$$;
revoke all on function budget_internal.check_provider_cost(jsonb, bigint) from public;
comment on function budget_internal.check_provider_cost(jsonb, bigint) is 'Validate one imported cost; LB101 names its place.';
