"""What the tests of calls share: the standard call's cost, its hold, the ledger and the budget of a key."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.processes import Gateway, wait_until
from tests.support.world import World

STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
STANDARD = 900  # 100 input + 200 x 4 output


def hold_of(world: World, gateway: Gateway, **body: Any) -> int:
    """H: the hold that the gateway itself records for a request."""
    key = world.key(10**12)
    assert gateway.chat(key, {"status": 400}, **body).status_code == 400
    return int(settled(world, key)[0]["reserved_nano_usd"]) // 1000


def settled(world: World, key: str, count: int = 1) -> list[dict[str, Any]]:
    """The ledger of a key, once it has so many rows and nothing is held."""
    query = (
        "select l.*, l.amount_nano_usd / 1000 as amount from budget_internal.ledger_entries l"
        " join budget_internal.key_secrets s using (key_id) where s.secret_hash = sha256(convert_to(%s, 'UTF8'))"
        " order by entry_id"
    )
    wait_until(lambda: len(world.rows(query, key)) >= count, 30, f"{count} ledger rows")
    assert (
        world.rows(
            "select 1 from budget_internal.reservations r join budget_internal.key_secrets s using (key_id)"
            " where s.secret_hash = sha256(convert_to(%s, 'UTF8'))",
            key,
        )
        == []
    )
    return world.rows(query, key)


def budget(gateway: Gateway, key: str) -> dict[str, Any]:
    """The caller's one budget, in micro-dollars."""
    answer = httpx.get(f"{gateway.url}/v1/budget", headers={"authorization": f"Bearer {key}"}).json()
    (row,) = answer["budgets"]
    return {n: round(row[f"{n}_usd"] * 1e6) for n in ("limit", "spent", "reserved", "available")}
