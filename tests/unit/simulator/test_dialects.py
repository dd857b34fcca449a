"""What holds of every dialect: how it behaves as told, what is billed, what fails. Amounts are worked by hand."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from pgbudget.simulator.app import DIALECTS
from pgbudget.simulator.endpoint import Endpoint, Simulator
from tests.support.processes import WIRE, wait_until
from tests.unit.simulator.conftest import CHAT, COMPLETIONS, EMBEDDINGS, GENERATING, MESSAGES, RESPONSES, Route, Running
from tests.unit.simulator.test_faults import read_all, read_until

MANIFEST: list[dict[str, Any]] = [json.loads(line) for line in (WIRE / "manifest.jsonl").read_text().splitlines()]
ROUTE_OF = {"chat": CHAT, "responses": RESPONSES, "completions": COMPLETIONS, "messages": MESSAGES, "embeddings": EMBEDDINGS}

every_route = pytest.mark.parametrize("route", GENERATING, ids=lambda r: r.path)
streamed_or_not = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def body_of(route: Route, stream: bool) -> dict[str, Any]:
    """The body of a call."""
    return route.stream if stream else route.body


@every_route
@streamed_or_not
@pytest.mark.parametrize("deltas", ["content", "tool_calls", "reasoning"])
def test_the_text_says_how_many_tokens_it_is_wherever_it_goes(
    simulator: Running, route: Route, stream: bool, deltas: str
) -> None:
    answer = simulator.post(route.path, body_of(route, stream), completion_tokens=5, reasoning_tokens=2, deltas=deltas)
    shown = answer.text.count("word ")
    # A stream of responses repeats the text in the events that end it.
    assert shown == (3 * {"tool_calls": 4, "reasoning": 5, "content": 5}[deltas] if stream and route is RESPONSES else 3)
    call = simulator.last()
    thought = 5 if deltas == "reasoning" else 2
    assert (call["state"], call["completion_tokens"], call["reasoning_tokens"]) == ("finished", 5, thought)
    assert call["billed_nano_usd"] == 100 * 1_000 + 5 * 4_000


@every_route
@streamed_or_not
def test_the_cap_ends_the_output_unless_it_is_ignored(simulator: Running, route: Route, stream: bool) -> None:
    body = {**body_of(route, stream), route.cap: 20}
    capped = {"responses": '"reason":"max_output_tokens"', "messages": '"max_tokens"'}.get(
        route.path.removeprefix("/v1/"), '"length"'
    )
    for behaviour, tokens in (({}, 20), ({"ignore_cap": True}, 200), ({"completion_tokens": 20}, 20)):
        answer = simulator.post(route.path, body, **behaviour)
        assert simulator.last()["completion_tokens"] == tokens
        assert (capped in answer.text) == (behaviour == {})


@every_route
@streamed_or_not
def test_all_that_is_billed_is_reported_and_counted(simulator: Running, route: Route, stream: bool) -> None:
    body = {**body_of(route, stream), "model": "c-son"}
    told = {"prompt_tokens": 100, "cached_tokens": 40, "cache_write_5m_tokens": 20, "cache_write_1h_tokens": 10}
    answer = simulator.post(route.path, body, completion_tokens=7, web_searches=2, **told)
    # 30 x 3 + 40 x 0.3 + 20 x 3.75 + 10 x 6 + 7 x 15 = 342 micro-USD, and two searches at a cent.
    assert simulator.last()["billed_nano_usd"] == 342_000 + 20_000_000
    assert simulator.tally()["cost_nano_usd"] == 20_342_000
    usage, _ = json.JSONDecoder().raw_decode(answer.text[answer.text.rindex('"usage":{') + len('"usage":') :])
    if route is MESSAGES:
        assert (usage["input_tokens"], usage["cache_creation_input_tokens"], usage["cache_read_input_tokens"]) == (30, 30, 40)
        assert usage["server_tool_use"]["web_search_requests"] == 2
        written = {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10}
        assert json.dumps(written, separators=(",", ":")) in answer.text
    else:
        details = usage["input_tokens_details" if route is RESPONSES else "prompt_tokens_details"]
        assert (details["cached_tokens"], details["cache_write_tokens"]) == (40, 30)
    if route is RESPONSES:
        assert '"tool_usage":{"web_search":{"num_requests":2}}' in answer.text


@every_route
@pytest.mark.parametrize(("tier", "nano"), [("flex", 54_000), ("priority", 216_000), ("standard", 108_000), (None, 108_000)])
def test_a_tier_is_named_and_priced(simulator: Running, route: Route, tier: str | None, nano: int) -> None:
    for body in (route.body, route.stream):
        answer = simulator.post(route.path, body, completion_tokens=2, service_tier=tier)
        assert simulator.last()["billed_nano_usd"] == nano
        assert tier is None or f'"service_tier":"{tier}"' in answer.text


@every_route
@streamed_or_not
def test_usage_is_missing_or_wrong_as_told(simulator: Running, route: Route, stream: bool) -> None:
    body = body_of(route, stream)
    assert '"usage":{' not in simulator.post(route.path, body, no_usage=True).text
    assert '"usage":{"mine":1}' in simulator.post(route.path, body, usage={"mine": 1}).text
    assert {call["billed_nano_usd"] for call in simulator.tally()["generated"]} == {900_000}


@every_route
def test_a_stream_reports_usage_piece_by_piece_if_told(simulator: Running, route: Route) -> None:
    text = simulator.post(route.path, route.stream, completion_tokens=2, usages=[{"a": 1}, {"b": 2}]).text
    assert text.index('"usage":{"a":1}') < text.rindex('"word "') < text.index('"usage":{"b":2}')
    assert route is MESSAGES or text.count('"usage":{') == 2


@every_route
@streamed_or_not
def test_padding_makes_answers_large_and_not_dear(simulator: Running, route: Route, stream: bool) -> None:
    plain, padded = (
        simulator.post(route.path, body_of(route, stream), completion_tokens=4, padding=size) for size in (0, 2000)
    )
    assert len(padded.content) - len(plain.content) >= (4 if stream else 1) * 2000
    assert {c["billed_nano_usd"] for c in simulator.tally()["generated"]} == {116_000}


@every_route
@streamed_or_not
def test_ids_models_and_members_as_told(simulator: Running, route: Route, stream: bool) -> None:
    body = body_of(route, stream)
    answer = simulator.post(route.path, body, ids=["mine"], model="t-other", completion_tokens=1)
    assert '"id":"mine"' in answer.text
    assert '"model":"t-other"' in answer.text
    assert (simulator.last()["id"], simulator.last()["model"]) == ("mine", "t-mini")
    assert '"model"' not in simulator.post(route.path, body, omit=["model"], completion_tokens=1).text


@every_route
@pytest.mark.parametrize(("fault", "end"), [("cut_after_chunks", "reset"), ("close_after_chunks", "closed")])
@pytest.mark.parametrize("pieces", [0, 2])
def test_a_stream_that_breaks_bills_what_was_sent(simulator: Running, route: Route, fault: str, end: str, pieces: int) -> None:
    with simulator.connect(route.stream, path=route.path, **{fault: pieces}) as connection:
        seen, how = read_all(connection)
    assert (how, seen.count(b'"word "'), route.last.encode() in seen) == (end, pieces, False)
    # What comes before the first piece has left too.
    assert (b"message_start" in seen) == (route is MESSAGES)
    assert (b"response.created" in seen) == (route is RESPONSES)
    wait_until(lambda: simulator.last()["state"] == "broken")
    assert simulator.last()["billed_nano_usd"] == 100_000 + pieces * 4_000


@every_route
@streamed_or_not
def test_silence_and_a_client_that_leaves(simulator: Running, route: Route, stream: bool) -> None:
    with simulator.connect(body_of(route, stream), path=route.path, silence_after_chunks=2) as connection:
        if stream:
            read_until(connection, b'"word "', 2)
        wait_until(lambda: simulator.last()["completion_tokens"] == 2)
        assert simulator.tally()["states"]["running"] == 1
    wait_until(lambda: simulator.last()["state"] == "left")
    assert simulator.last()["billed_nano_usd"] == 108_000


@every_route
@streamed_or_not
def test_an_error_ends_the_answer(simulator: Running, route: Route, stream: bool) -> None:
    for told, message in (({}, "simulated error"), ({"error_body": {"type": "error", "error": {"message": "mine"}}}, "mine")):
        answer = simulator.post(route.path, body_of(route, stream), error_after_chunks=2, **told)
        assert (answer.status_code, answer.text.count('"word "'), route.last in answer.text) == (200, 2 * stream, False)
        assert f'"message":"{message}"' in answer.text
        assert (simulator.last()["state"], simulator.last()["billed_nano_usd"]) == ("broken", 108_000)
        assert ("event: error\n" in answer.text) == (stream and route in (MESSAGES, RESPONSES))
        assert ('"status":"failed"' in answer.text) == (route is RESPONSES)


@every_route
def test_an_answer_that_ends_too_early(simulator: Running, route: Route) -> None:
    answer = simulator.post(route.path, route.stream, end_after_chunks=2)
    assert (answer.status_code, answer.text.count('"word "'), route.last in answer.text) == (200, 2, False)
    with pytest.raises(ValueError, match=r"."):
        simulator.post(route.path, route.body, end_after_chunks=2).json()
    assert {c["billed_nano_usd"] for c in simulator.tally()["generated"]} == {108_000}


@pytest.mark.parametrize("route", [*GENERATING, EMBEDDINGS], ids=lambda r: r.path)
def test_errors_redirects_and_refused_members_bill_nothing(simulator: Running, route: Route) -> None:
    for status in (400, 429, 503, 529):
        answer = simulator.post(route.path, route.body, status=status)
        assert (answer.status_code, answer.json()["error"]["message"]) == (status, f"simulated status {status}")
    assert simulator.post(route.path, route.body, status=418, error_body=["mine"]).json() == ["mine"]
    assert simulator.post(route.path, route.body, redirect="http://127.0.0.2/").headers["location"] == "http://127.0.0.2/"
    assert simulator.post(route.path, route.body, refuse_parameters=["model"]).status_code == 400
    tally = simulator.tally()
    assert (tally["states"]["refused"], tally["cost_nano_usd"]) == (7, 0)


@pytest.mark.parametrize("row", [r for r in MANIFEST if r["endpoint"] in ROUTE_OF], ids=lambda r: r["file"])
def test_a_recording_comes_back_to_the_byte_and_is_billed_as_it_says(simulator: Running, row: dict[str, Any]) -> None:
    route = ROUTE_OF[row["endpoint"]]
    answer = simulator.post(route.path, body_of(route, row["stream"] and route is not EMBEDDINGS), replay=row["file"])
    assert (answer.status_code, answer.content) == (row["status"], (WIRE / row["file"]).read_bytes())
    call, usage = simulator.last(), row["expected_usage"]
    assert call["billed"] == (row["status"] == 200)
    if usage and "by_model" not in usage and row["status"] == 200:
        names = {"prompt_tokens": "input_tokens", "cached_tokens": "cached_input_tokens", "completion_tokens": "output_tokens"}
        assert {name: call[name] for name in names} == {name: usage[told] or 0 for name, told in names.items()}
        assert call["cache_write_1h_tokens"] == usage["cache_write_1h"]
        assert call["cache_write_5m_tokens"] == usage["cache_write_5m"] + usage["cache_write_other"]
        assert call["web_searches"] == usage["web_searches"]


def test_a_recording_of_two_models_bills_each(simulator: Running) -> None:
    body = {**MESSAGES.body, "model": "c-son"}
    simulator.post(MESSAGES.path, body, replay="anthropic/messages_advisor_iterations.json")
    # 2,390 x 3 + 121 x 15 and, of the advisor, 2,518 x 5 + 22 x 25.
    own, advisor = 8_985_000, 13_140_000
    call, tally = simulator.last(), simulator.tally()
    assert call["billed_nano_usd"] == own
    assert call["others"] == [{"model": "claude-opus-4-8", "billed_nano_usd": advisor}]
    assert (tally["requests"], tally["cost_nano_usd"]) == (1, own + advisor)
    assert tally["by_model"]["claude-opus-4-8"] == {
        "requests": 0, "input_tokens": 2_518, "cached_tokens": 0, "output_tokens": 22, "cost_nano_usd": advisor,
        "priced": True,
    }  # fmt: skip


def test_cache_writes_of_both_durations_and_searches_of_recordings_are_billed(simulator: Running) -> None:
    body = {**MESSAGES.body, "model": "c-son"}
    simulator.post(MESSAGES.path, body, replay="anthropic/messages_cache_write_5m_and_1h.json")
    # 3 x 3 + 14 x 3.75 + 2,056 x 6 + 459 x 15
    assert simulator.last()["billed_nano_usd"] == 19_282_500
    simulator.post(MESSAGES.path, body, replay="anthropic/messages_web_search.json")
    # 11,642 x 3 + 141 x 15, and one search
    assert simulator.last()["billed_nano_usd"] == 37_041_000 + 10_000_000


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("behaviour", [{}, {"chunk_ms": 1}, {"split": "lines"}, {"error_after_chunks": 2}])
@every_route
def test_the_tally_is_never_behind_the_wire(route: Route, stream: bool, behaviour: dict[str, Any]) -> None:
    simulator = Simulator({"completion_tokens": 5, **behaviour}, key=None)
    requests = iter([{"type": "http.request", "body": json.dumps(body_of(route, stream)).encode()}])
    sent, ended = b"", False

    async def receive() -> Any:
        return next(requests, None) or await asyncio.Event().wait()

    async def send(message: Any) -> None:
        nonlocal sent, ended
        sent += message.get("body", b"")
        summary = simulator.tally.summary(1)
        assert summary["output_tokens"] >= sent.count(b'"word "')
        ended = message.get("more_body") is False
        assert summary["states"]["running"] == (not ended)

    scope = {"type": "http", "headers": [(b"authorization", b"Bearer k"), (b"anthropic-version", b"2023-06-01")]}
    dialect = next(d for d in DIALECTS if d.path == route.path)
    asyncio.run(Endpoint(simulator, dialect)(scope, receive, send))
    assert ended
