"""What a budget that is spent is answered with, by setting: on every route, streamed and not, and where a run is started."""

from __future__ import annotations

import httpx
import pytest

from tests.proxy.calls import STREAMED
from tests.proxy.routes import CHAT, MESSAGES, ROUTES
from tests.support.processes import Gateway, Simulator
from tests.support.world import World


@STREAMED
@pytest.mark.parametrize("status", [402, 429])
def test_a_budget_that_is_spent_is_answered_as_the_setting_says(
    shared_world: World, simulator: Simulator, status: int, stream: bool
) -> None:
    key = shared_world.key(10**6)
    with Gateway(shared_world.gateway_dsn, simulator.url, exceeded_status=str(status)) as gateway:
        for route in ROUTES:
            # One step, and no more.
            headers = {**route.headers(key), "x-pgbudget-run": route.name, "x-pgbudget-run-max-steps": "1"}
            body = route.body(stream=stream and route.cap is not None)
            answers = [httpx.post(gateway.url + route.path, headers=headers, json=body, timeout=30) for _ in range(2)]
            assert [answer.status_code for answer in answers] == [200, status], route
            error = answers[1].json()["error"]
            if route is not MESSAGES:
                assert (error["code"], error["type"]) == ("budget_exceeded", "insufficient_quota")
            # To wait is in vain, whatever the status says.
            assert answers[1].headers["x-should-retry"] == "false"
        # One call above a whole limit is something else.
        assert gateway.chat(shared_world.key(1)).status_code == 402
        child = {"run": "child", "parent_run": "parent", "ceiling_usd": "0.02"}
        answers = [
            httpx.post(f"{gateway.url}/v1/budget/runs", headers=CHAT.headers(key), json=run, timeout=30)
            for run in ({"run": "parent", "ceiling_usd": "0.01"}, child)
        ]
        assert [answer.status_code for answer in answers] == [201, status]
        assert answers[1].json()["error"]["code"] == "budget_exceeded"
