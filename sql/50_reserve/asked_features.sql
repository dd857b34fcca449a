-- budget_internal.asked_features: the features that a request may use; one that it may use n times is there n times.
create or replace function budget_internal.asked_features(p_features jsonb, p_uses jsonb) returns text[]
language plpgsql immutable
as $$
begin
  return array(
    select f from jsonb_array_elements_text(p_features) f where (p_uses ? f) is not true
  ) || array(
    select u.key from jsonb_each_text(p_uses) u cross join lateral generate_series(1, u.value::integer)
  );
end
$$;
revoke all on function budget_internal.asked_features(jsonb, jsonb) from public;
comment on function budget_internal.asked_features(jsonb, jsonb) is
  'Features of a request as a list.';
