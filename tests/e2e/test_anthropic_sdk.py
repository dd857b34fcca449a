"""The gateway as the ``anthropic`` SDK meets it: only the base URL and the key change."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic

from tests.support.processes import Gateway, Simulator, wait_until
from tests.support.world import World

STANDARD = 100 * 3 + 200 * 15  # micro-dollars
TEXT = "word " * 200
ASK: dict[str, Any] = {"model": "c-son", "max_tokens": 200, "messages": [{"role": "user", "content": "word " * 120}]}
TOOLS: list[Any] = [{"name": "f", "input_schema": {"type": "object", "properties": {"x": {"type": "string"}}}}]


def client_of(gateway: Gateway, key: str, **options: Any) -> Anthropic:
    return Anthropic(base_url=gateway.url, api_key=key, timeout=30, **options)


def spent(world: World) -> int:
    """What the world's one budget has spent, once nothing is held."""
    wait_until(lambda: world.held() == 0, what="the settlements")
    assert world.verify() == []
    return world.spent()


def test_answers_come_through_whole_and_streamed_and_counted(world: World, gateway: Gateway, simulator: Simulator) -> None:
    with client_of(gateway, world.key(100_000)) as client:
        raw = client.messages.with_raw_response.create(**ASK)
        whole = raw.parse()
        with client.messages.stream(**ASK) as stream:
            streamed = stream.get_final_message()
        with client.messages.stream(
            **ASK, tools=TOOLS, extra_headers={"x-simulate": json.dumps({"deltas": "tool_calls", "completion_tokens": 20})}
        ) as stream:
            called = stream.get_final_message()
        counted = client.messages.count_tokens(model="c-son", messages=ASK["messages"])
    for message in (whole, streamed):
        assert [getattr(block, "text", None) for block in message.content] == [TEXT]
        assert (message.usage.input_tokens, message.usage.output_tokens) == (100, 200)
    assert [block.name for block in called.content if block.type == "tool_use"] == ["f"]
    assert counted.input_tokens == 100
    assert raw.headers["x-pgbudget-reservation"] == str(world.ledger()[0]["reservation_id"])
    assert spent(world) == 2 * STANDARD + 100 * 3 + 20 * 15
    assert len(world.ledger()) == 4


def test_refusals_are_the_sdks_own_errors_and_are_not_tried_again(world: World, gateway: Gateway, simulator: Simulator) -> None:
    key = world.key(STANDARD)
    with client_of(gateway, key) as client:
        assert client.max_retries == 2
        with pytest.raises(anthropic.APIStatusError) as caught:
            client.messages.create(**ASK)
        error = caught.value
        assert (error.status_code, error.type) == (402, "billing_error")
        assert isinstance(error.body, dict)
        assert error.body["error"]["code"] == "request_over_limit"
        with pytest.raises(anthropic.APIStatusError) as caught, client.messages.stream(**ASK) as stream:
            stream.until_done()
        assert caught.value.type == "billing_error"
        with pytest.raises(anthropic.BadRequestError) as bad:
            client.messages.create(**ASK, inference_geo="us")
        assert "inference_geo" in bad.value.message
        with pytest.raises(anthropic.NotFoundError):
            client.messages.create(**{**ASK, "model": "claude-of-tomorrow"})
        with pytest.raises(anthropic.NotFoundError):
            client.messages.batches.list()
    with client_of(gateway, "pgb_unknown") as client, pytest.raises(anthropic.AuthenticationError):
        client.messages.create(**ASK)
    assert simulator.calls() == 0
    refused = [line.partition("refused ")[2].strip() for line in gateway.log().splitlines() if "refused " in line]
    assert refused == [
        "402 request_over_limit", "402 request_over_limit", "400 invalid_request", "404 model_not_found", "401 invalid_key",
    ]  # fmt: skip


def test_a_provider_that_is_full_is_left_to_the_sdk(world: World, gateway: Gateway) -> None:
    with client_of(gateway, world.key(100_000), max_retries=0) as client, pytest.raises(anthropic.OverloadedError) as caught:
        client.messages.create(**ASK, extra_headers={"x-simulate": '{"status": 529}'})
    assert "simulated status 529" in str(caught.value)
    assert spent(world) == 0
