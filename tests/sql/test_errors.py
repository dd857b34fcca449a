"""How errors look to who meets them in psql."""

from __future__ import annotations

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
