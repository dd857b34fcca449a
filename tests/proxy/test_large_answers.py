"""Answers of megabytes, whole and in one event: charged by their usage, and passed on as they are."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.proxy.calls import STREAMED, settled
from tests.proxy.routes import CHAT, COMPLETIONS, MESSAGES, RESPONSES, Route
from tests.support.processes import Gateway, Simulator
from tests.support.world import World

TEXT = 'the "same" line, again and again\n' * 60_000


def post(gateway: Gateway, simulator: Simulator, key: str, route: Route, stream: bool, usage: Any) -> tuple[bytes, bytes]:
    """What a provider answers with, and what its client gets. Usage of a stream is asked for, so that nothing is taken out."""
    raw = route.raw(TEXT, usage, stream)
    simulator.defaults(**raw)
    body: dict[str, Any] = {"stream_options": {"include_usage": True}} if stream and route.asks else {}
    model = "c-son" if route is MESSAGES else route.model
    answer = httpx.post(
        gateway.url + route.path, headers=route.headers(key), json=route.body(model=model, stream=stream, **body), timeout=60
    )
    assert answer.status_code == 200
    return next(iter(raw.values())).encode(), answer.content


@STREAMED
@pytest.mark.parametrize("route", [CHAT, COMPLETIONS, RESPONSES, MESSAGES], ids=str)
def test_a_large_answer_is_charged_by_its_usage(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, route: Route, stream: bool
) -> None:
    key = shared_world.key(10**9)
    sent, came = post(shared_gateway, simulator, key, route, stream, route.usage(100, 50))
    assert came == sent
    assert len(came) > 2_000_000
    (entry,) = settled(shared_world, key)
    assert (entry["source"], entry["flags"]) == ("usage", [])
    assert {kind: count for kind, count in entry["usage"].items() if count} == {"input": 100, "output": 50}


@STREAMED
@pytest.mark.parametrize("route", [CHAT, COMPLETIONS, RESPONSES, MESSAGES], ids=str)
def test_without_usage_by_its_size_and_no_more_than_was_held(
    shared_world: World, shared_gateway: Gateway, simulator: Simulator, route: Route, stream: bool
) -> None:
    key = shared_world.key(10**9)
    sent, came = post(shared_gateway, simulator, key, route, stream, None)
    assert came == sent
    (entry,) = settled(shared_world, key)
    assert "estimated" in entry["flags"]
    assert entry["amount_nano_usd"] == entry["reserved_nano_usd"]
