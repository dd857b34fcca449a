"""How far a hold is asked to grow, and when a stream must wait or end."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from pgbudget import growing
from pgbudget.db import ReserveResult
from pgbudget.growing import GrowingHold
from pgbudget.wire.chat import Chat
from pgbudget.wire.messages import Messages
from pgbudget.wire.providers import provider
from pgbudget.wire.responses import Responses


class Budget:
    """Room for so many tokens."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.asked: list[int] = []
        self.away = False

    async def extend(self, extension: dict[str, Any]) -> ReserveResult:
        self.asked.append(extension["output_tokens"])
        if self.away:
            raise TimeoutError
        tokens = min(extension["output_tokens"], self.room)
        return ReserveResult(
            status="granted", code=None, message=None, reservation_id=None, reserved_nano_usd=None,
            granted_output_tokens=tokens, routes=None, scope_kind=None, scope_name=None, budget_name=None, limit_nano_usd=None,
            spent_nano_usd=None, held_nano_usd=None, available_nano_usd=None, resets_at=None, worst_case_nano_usd=None,
            retry_after_seconds=None, state=None,
        )  # fmt: skip


def test_it_asks_before_it_must_and_rarely() -> None:
    async def run() -> None:
        budget = Budget(10**6)
        hold = GrowingHold(budget.extend, "r", 100, 100_000, 1)
        for seen in range(0, 50_000, 50):
            assert hold.fits(seen) or await hold.make_room(seen)
            await asyncio.sleep(0)
            assert hold.held >= seen
        assert len(budget.asked) < 60

    asyncio.run(run())


def test_what_may_be_on_its_way_must_be_held_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "_WAIT_SECONDS", 0.1)

    async def run() -> None:
        budget = Budget(1000)
        hold = GrowingHold(budget.extend, "r", 100, 2000, 1)
        assert await hold.make_room(500)
        # All of it came just now: as much again may be coming.
        assert not await hold.make_room(501)
        assert hold.held == 1000

    asyncio.run(run())


def test_tokens_are_counted_over_all_choices() -> None:
    async def run() -> None:
        hold = GrowingHold(Budget(0).extend, "r", 100, 1000, 4)
        assert hold.fits(200)
        assert not hold.fits(201)

    asyncio.run(run())


def test_at_the_cap_nothing_is_asked_and_all_fits() -> None:
    async def run() -> None:
        budget = Budget(1000)
        hold = GrowingHold(budget.extend, "r", 100, 1000, 1)
        assert await hold.fill()
        assert budget.asked == [1000]
        assert hold.fits(10**9)

    asyncio.run(run())


def test_a_database_that_is_away_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "_WAIT_SECONDS", 0.1)

    async def run() -> None:
        budget = Budget(1000)
        budget.away = True
        hold = GrowingHold(budget.extend, "r", 100, 1000, 1)
        assert not await hold.make_room(80)
        assert not await hold.fill()
        budget.away = False
        assert await hold.make_room(80)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "model", "shows"),
    [
        ("openai", "gpt-4o-mini", True),
        ("openai", "gpt-4.1", True),
        ("openai", "gpt-4.5-preview", False),
        ("openai", "o3", False),
        ("openai", "gpt-5", False),
        ("azure", "gpt-4o", False),
        ("anthropic", "claude-3-5-sonnet-20241022", True),
        ("anthropic", "claude-opus-4-20250514", True),
        ("anthropic", "claude-haiku-4-5", True),
        ("anthropic", "claude-opus-4-6", False),
        ("anthropic", "claude-opus-5", False),
        ("mistral", "magistral-small", True),
        ("never heard of", "m", False),
    ],
)
def test_models_that_show_all_they_bill(name: str, model: str, shows: bool) -> None:
    assert provider(name).shows_all(model) == shows


@pytest.mark.parametrize(
    ("extra", "grows"),
    [
        ({}, True),
        ({"stream": False}, False),
        ({"n": 3, "tools": [{"type": "function", "function": {"name": "f"}}]}, True),
        ({"reasoning_effort": "low"}, False),
        ({"prediction": {"type": "content", "content": "x"}}, False),
        ({"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}}, False),
        ({"web_search_options": {}}, False),
    ],
)
def test_requests_whose_output_is_all_seen(extra: dict[str, Any], grows: bool) -> None:
    chat = Chat()
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}], **extra}
    assert chat.grows(chat.read(body)) == grows


@pytest.mark.parametrize(
    ("extra", "grows"),
    [
        ({}, True),
        ({"stream": False}, False),
        ({"thinking": {"type": "disabled"}}, True),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, False),
        ({"thinking": {"type": "adaptive"}}, False),
        ({"tools": [{"name": "f", "input_schema": {}}]}, False),
        ({"system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]}, True),
    ],
)
def test_messages_whose_output_is_all_seen(extra: dict[str, Any], grows: bool) -> None:
    messages = Messages()
    body = {"model": "m", "max_tokens": 2000, "stream": True, "messages": [{"role": "user", "content": "hi"}], **extra}
    assert messages.grows(messages.read(body)) == grows


@pytest.mark.parametrize(
    ("extra", "grows"),
    [
        ({}, True),
        ({"stream": False}, False),
        ({"tools": [{"type": "function", "name": "f"}]}, True),
        ({"tools": [{"type": "web_search"}]}, False),
        ({"reasoning": {"effort": "low"}}, False),
    ],
)
def test_responses_whose_output_is_all_seen(extra: dict[str, Any], grows: bool) -> None:
    responses = Responses()
    assert responses.grows(responses.read({"model": "m", "input": "hi", "stream": True, **extra})) == grows


def test_a_cut_ends_the_choices_that_go_on() -> None:
    chat = Chat()
    request = chat.read({
        "model": "m", "stream": True, "n": 2, "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "hi"}],
    })  # fmt: skip
    meter = chat.meter(request, provider("simulator"))
    head = {"id": "x", "object": "chat.completion.chunk", "created": 7, "model": "up"}
    chunks = [
        {**head, "choices": [{"index": 0, "delta": {"content": "abc"}, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {**head, "choices": [{"index": 1, "delta": {"content": "de"}, "finish_reason": None}]},
    ]
    sent = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    assert b"".join(meter.pieces(sent)) == sent
    end, usage, done = meter.cut().rstrip().split(b"\n\n")
    assert json.loads(end.removeprefix(b"data: ")) == {
        **head, "choices": [{"index": 1, "delta": {}, "finish_reason": "length"}]
    }  # fmt: skip
    said = json.loads(usage.removeprefix(b"data: "))
    assert said["choices"] == []
    assert said["usage"]["completion_tokens"] == 5
    assert done == b"data: [DONE]"
