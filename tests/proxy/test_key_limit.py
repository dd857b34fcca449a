"""As many calls of a key at once as may: another is refused before its body is read, other keys are unharmed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.proxy.calls import STREAMED, settled
from tests.support.processes import Gateway, Simulator, wait_until
from tests.support.world import World


@STREAMED
def test_a_key_has_as_many_calls_as_may(world: World, simulator: Simulator, stream: bool) -> None:
    with Gateway(world.gateway_dsn, simulator.url, max_calls_per_key="2") as gateway, ThreadPoolExecutor(2) as pool:
        key = world.key(10**6)
        calls = [pool.submit(gateway.chat, key, {"barrier": "full"}, stream=stream) for _ in range(2)]
        wait_until(lambda: simulator.waiting("full") == 2)
        refused = gateway.chat(key, stream=stream)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_calls")
        assert refused.headers["retry-after"] == "1"
        assert "x-should-retry" not in refused.headers
        assert gateway.chat(world.key(10**6), stream=stream).status_code == 200
        simulator.open("full")
        assert [call.result().status_code for call in calls] == [200, 200]
        wait_until(lambda: gateway.chat(key, stream=stream).status_code == 200)
        assert len(settled(world, key, 3)) == 3
        assert world.verify() == []
