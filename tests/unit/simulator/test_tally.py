"""The ground truth: amounts are worked by hand, in nano-USD."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from pgbudget.simulator.chat import Chat
from pgbudget.simulator.endpoint import Endpoint, Simulator
from pgbudget.simulator.tally import KEPT, Call, Tally
from tests.unit.simulator.conftest import BODY, STREAM, Running

BY_HAND: list[tuple[dict[str, Any], int]] = [
    # 100 x 1 + 200 x 4 = 900 micro-USD
    ({"model": "t-mini", "prompt_tokens": 100, "completion_tokens": 200}, 900_000),
    # 60 x 1 + 40 x 0.25 + 200 x 4 = 870
    ({"model": "t-mini", "prompt_tokens": 100, "cached_tokens": 40, "completion_tokens": 200}, 870_000),
    # 7 x 5 + 3 x 0.5 + 1 x 30 = 66.5
    ({"model": "t-pro", "prompt_tokens": 10, "cached_tokens": 3, "completion_tokens": 1}, 66_500),
    # 200,000 x 3 + 10 x 15 = 600,150; one token more and the whole call is dearer: 200,001 x 6 + 10 x 22.5 = 1,200,231
    ({"model": "c-son", "prompt_tokens": 200_000, "completion_tokens": 10}, 600_150_000),
    ({"model": "c-son", "prompt_tokens": 200_001, "completion_tokens": 10}, 1_200_231_000),
    # 1 x 0.02
    ({"model": "e-small", "prompt_tokens": 1}, 20),
    ({"model": "off the card", "prompt_tokens": 10, "completion_tokens": 10}, 0),
    ({"model": "t-mini", "prompt_tokens": 10**18, "completion_tokens": 10**18}, 5 * 10**21),
]


@pytest.mark.parametrize(("members", "nano"), BY_HAND)
def test_a_call_is_priced_exactly(members: dict[str, Any], nano: int) -> None:
    assert Call(billed=True, **members).billed_nano_usd == nano
    assert Call(billed=False, **members).billed_nano_usd == 0


def test_a_fraction_of_a_nano_dollar_is_rounded_up_once_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    from pgbudget.simulator import tally

    monkeypatch.setitem(tally.RATES, "tiny", tally.Model(10, tally.Price.of("0.0004 0.0001 0.0004")))
    # 0.4 nano-USD a token: 1.2 for two in and one out is 2, not 3 x 1.
    assert Call("tiny", prompt_tokens=2, completion_tokens=1, billed=True).billed_nano_usd == 2
    assert Call("tiny", prompt_tokens=5, billed=True).billed_nano_usd == 2


def test_totals_are_the_sums_of_the_calls(simulator: Running) -> None:
    simulator.chat(completion_tokens=10)
    simulator.chat({**STREAM, "model": "t-pro"}, prompt_tokens=20, cached_tokens=10, completion_tokens=5)
    simulator.chat(status=500)
    tally = simulator.tally()
    mini = {"requests": 2, "input_tokens": 100, "cached_tokens": 0, "output_tokens": 10, "cost_nano_usd": 140_000}
    pro = {"requests": 1, "input_tokens": 20, "cached_tokens": 10, "output_tokens": 5, "cost_nano_usd": 205_000}
    assert tally["by_model"] == {"t-mini": {**mini, "priced": True}, "t-pro": {**pro, "priced": True}}
    assert {name: tally[name] for name in mini} == {name: mini[name] + pro[name] for name in mini}
    assert tally["cost_nano_usd"] == sum(c["billed_nano_usd"] for c in tally["generated"])
    assert tally["states"] == {"running": 0, "finished": 2, "refused": 1, "broken": 0, "left": 0}
    assert tally["unfinished"] == 0


def test_calls_are_shown_with_all_that_came(simulator: Running) -> None:
    body = {**BODY, "metadata": {"a": "\ud800"}}
    headers = [("authorization", "Bearer sk-1"), ("x-two", "a"), ("x-two", "b"), ("content-type", "application/json")]
    content = b'{"model":"t-mini","max_tokens":200,"messages":[{"role":"user","content":"hi"}],"metadata":{"a":"\\ud800"}}'
    answer = simulator.client.post("/v1/chat/completions", content=content, headers=headers)
    call = simulator.last()
    assert call["request_body"] == body
    assert [pair for pair in call["request_headers"] if pair[0] in ("authorization", "x-two")] == [
        ["authorization", "Bearer sk-1"], ["x-two", "a"], ["x-two", "b"]
    ]  # fmt: skip
    assert call["id"] == answer.json()["id"]
    assert (call["state"], call["finished"], call["status"], call["billed"]) == ("finished", True, 200, True)


def test_the_list_is_limited_and_the_totals_are_not(simulator: Running) -> None:
    for tokens in (1, 2, 3):
        simulator.chat(completion_tokens=tokens)
    assert [c["completion_tokens"] for c in simulator.tally(limit=2)["generated"]] == [2, 3]
    assert simulator.tally(limit=0)["generated"] == simulator.tally(limit=-1)["generated"] == []
    assert simulator.tally(limit=0)["output_tokens"] == 6
    assert simulator.client.get("/simulator/tally?limit=x").status_code == 400


def test_old_calls_leave_the_list_and_stay_in_the_totals() -> None:
    tally = Tally()
    for _ in range(KEPT + 5):
        call = Call("t-mini", prompt_tokens=1, billed=True)
        tally.begin(call)
        tally.end(call, "finished")
    summary = tally.summary(limit=KEPT * 2)
    assert (summary["requests"], summary["cost_nano_usd"]) == (KEPT + 5, (KEPT + 5) * 1000)
    assert len(summary["generated"]) == KEPT


def test_a_call_ends_once_and_not_in_the_tally_after_a_reset() -> None:
    tally = Tally()
    call, late = Call("t-mini"), Call("t-mini")
    tally.begin(call)
    tally.end(call, "broken")
    tally.end(call, "finished")
    assert tally.summary(1)["states"]["broken"] == tally.summary(1)["requests"] == 1
    tally.begin(late)
    tally.reset()
    tally.end(late, "finished")
    assert tally.summary(1)["requests"] == 0


@pytest.mark.parametrize("body", [BODY, STREAM])
@pytest.mark.parametrize("behaviour", [{}, {"chunk_ms": 1}, {"split": "lines"}, {"error_after_chunks": 2}, {"status": 500}])
def test_the_tally_is_never_behind_the_wire(body: dict[str, Any], behaviour: dict[str, Any]) -> None:
    simulator = Simulator({"completion_tokens": 5, **behaviour}, key=None)
    content = json.dumps(body).encode()
    requests = iter([{"type": "http.request", "body": content}])
    sent = b""
    ended = False

    async def receive() -> Any:
        return next(requests, None) or await asyncio.Event().wait()

    async def send(message: Any) -> None:
        # What a client could know at this moment, against what the tally says.
        nonlocal sent, ended
        sent += message.get("body", b"")
        summary = simulator.tally.summary(1)
        assert summary["output_tokens"] >= sent.count(b"word ")
        ended = message.get("more_body") is False
        assert summary["states"]["running"] == (not ended)

    scope = {"type": "http", "headers": [(b"authorization", b"Bearer k")]}
    asyncio.run(Endpoint(simulator, Chat())(scope, receive, send))
    assert ended
