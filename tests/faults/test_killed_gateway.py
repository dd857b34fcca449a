"""A gateway that dies leaves its holds to the others: each ends charged in full, once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.support.processes import Gateway, Simulator, wait_until
from tests.support.world import World

LIMIT = 1_000_000
CALLS = 3


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("how", ["by itself", "by hand"])
def test_the_holds_of_a_killed_gateway_are_charged_in_full_by_another(
    world: World, simulator: Simulator, how: str, stream: bool
) -> None:
    world.execute("""select budget.set_policy(null, '{"stale_seconds": 2, "heartbeat_seconds": 1}')""")
    key = world.key(LIMIT)
    never: dict[str, Any] = {"reconcile_seconds": "0"}
    other: dict[str, Any] = never if how == "by hand" else {"reconcile_seconds": "0.2"}
    with (
        ThreadPoolExecutor(CALLS) as pool,
        Gateway(world.gateway_dsn, simulator.url, **never) as doomed,
        Gateway(world.gateway_dsn, simulator.url, **other) as survivor,
    ):
        calls = [pool.submit(doomed.chat, key, {"silence_after_chunks": 3}, stream=stream) for _ in range(CALLS)]

        def generated() -> list[int]:
            return [call["completion_tokens"] for call in simulator.tally()["generated"]]

        wait_until(lambda: sum(count >= 3 for count in generated()) == CALLS, what="tokens of every call")
        held = world.held()
        assert len(world.rows("select 1 from budget_internal.reservations")) == CALLS
        assert world.ledger() == []
        doomed.kill()
        assert all(isinstance(call.exception(), httpx.TransportError) for call in calls)

        if how == "by hand":
            stale = "select 1 from budget_internal.reservations where stale_at < clock_timestamp()"
            wait_until(lambda: len(world.rows(stale)) == CALLS, what="holds gone stale")
            assert world.held() == held
            answer = httpx.post(f"{survivor.url}/admin/reconcile", headers={"authorization": f"Bearer {Gateway.ADMIN}"})
            assert answer.json() == {"charged": CALLS, "failed": 0, "quarantined": 0, "more": False}
        wait_until(lambda: world.held() == 0, what="the end of all holds")

        entries = world.ledger()
        assert [(e["kind"], e["outcome"]) for e in entries] == [("charged", "stale")] * CALLS
        assert all(e["amount_nano_usd"] == e["reserved_nano_usd"] for e in entries)
        assert world.spent() == held
        # Never less than what the provider bills.
        assert world.spent() * 1000 >= simulator.tally()["cost_nano_usd"] > 0
        assert world.rows("select 1 from budget_internal.reservations") == []
        assert world.verify() == []
        # The key is as usable as before.
        assert survivor.chat(key, stream=stream).status_code == 200
