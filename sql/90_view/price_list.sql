-- budget.price_list: every version of every price list, with the limits of its model. rates is as add_price takes it; a window
-- that passes midnight is shown as the two that it is.
create or replace view budget.price_list as
select
  m.provider,
  m.model,
  p.price_id,
  p.effective_from,
  p.effective_to,
  p.reviewed_by,
  p.reviewed_at,
  p.source,
  p.detail,
  m.context_window_tokens,
  m.max_output_tokens,
  (
    select jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
      'kind', r.kind, 'usd', budget.usd(r.amount_nano), 'per', r.per, 'variant', r.variant,
      'above_input_tokens', r.above_input_tokens,
      'window', case when r.window_no > 0 then jsonb_build_object(
        'from', to_char(w.from_minute / 60, 'FM00') || ':' || to_char(w.from_minute % 60, 'FM00'),
        'to', to_char(w.to_minute / 60, 'FM00') || ':' || to_char(w.to_minute % 60, 'FM00'),
        'weekdays', to_jsonb(w.weekdays)
      ) end
    )) order by r.variant <> 'standard', r.variant, r.kind, r.above_input_tokens, r.window_no)
    from budget_internal.price_rates r
    left join budget_internal.price_windows w on w.price_id = r.price_id and w.window_no = r.window_no
    where r.price_id = p.price_id
  ) as rates
from budget_internal.models m
left join budget_internal.prices p on p.provider = m.provider and p.model = m.model;
comment on view budget.price_list is
  'Every version of every price list, reviewed or not, with its rates and the limits of its model in tokens.';
revoke all on budget.price_list from public;
grant select on budget.price_list to budget_reader, budget_admin;
