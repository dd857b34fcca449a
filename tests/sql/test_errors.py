"""How errors look to who meets them in psql."""

from __future__ import annotations

import json

import psycopg
import pytest

from tests.support.world import World

NOBODY = "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize(
    "call",
    [
        "create_scope(null, 'org', '')",
        "create_scope(null, 'org', 'o'), budget.create_scope(null, 'org', 'o')",
        "create_scope('nowhere', 'project', 'p')",
        "create_key('nowhere', 'p', 'k')",
        "set_budget('nowhere', 'key', 'k', 1, 'day')",
        "set_budget('o', 'org', 'o', -1, 'day')",
        "set_policy(null, '{\"nonsense\": 1}')",
        "set_model('p', 'm', 0, 0)",
        "add_price('p', 'm', '[]')",
        "review_price(-1, 'me')",
        "quote('p', 'm', '{}')",
        "key_budgets('nobody')",
        "reserve_batch('{}')",
        "settle_batch('{}')",
        f"settle('{NOBODY}', null, 'unknown')",
        f"release('{NOBODY}', 'none')",
        f"reconcile_one('{NOBODY}')",
        "reconcile(0)",
    ],
)
def test_an_error_has_a_hint_that_says_something_or_none(world: World, call: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        world.rows(f"select budget.{call}")
    assert (caught.value.sqlstate or "").startswith("LB")
    assert caught.value.diag.message_hint != ""


@pytest.mark.parametrize(("output", "choices"), [(2**63 - 1, 1), (2**62, 4)])
def test_an_output_limit_beyond_all_counters_shrinks_to_the_token_limit(world: World, output: int, choices: int) -> None:
    """Of a model without a limit of its own; neither it nor those in its batch fail."""
    org = world.org()
    key, other = world.key(org=org), world.key(org=org)
    world.execute("select budget.set_rate_limit(%s, 'key', %s, null, 1000)", org, world.key_name(key)[1])
    world.execute("select budget.set_route(null, 'endless', 'simulator', 'simulator')")
    endless = {"key": key, "model": "endless", "input_tokens": 100, "max_output_tokens": output, "options": {"n": choices}}
    plain = {"key": other, "model": "t-mini", "input_tokens": 100, "max_output_tokens": 20}
    rows = world.rows("select * from budget.reserve_batch(%s)", json.dumps([endless, plain]))
    assert [(row["status"], row["granted_output_tokens"]) for row in rows] == [("granted", 900 // choices), ("granted", 20)]
