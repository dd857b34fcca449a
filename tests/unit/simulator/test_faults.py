"""What goes wrong on the wire, and what is billed then. Everything waits on a condition, nothing on time."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import httpx
import pytest

from pgbudget.simulator import create_app
from tests.support.processes import wait_until
from tests.unit.simulator.conftest import BODY, STREAM, Running, events, headers


def read_until(connection: socket.socket, mark: bytes, count: int = 1) -> bytes:
    """Read until a mark has come so often."""
    seen = b""
    while seen.count(mark) < count:
        part = connection.recv(65536)
        assert part, seen
        seen += part
    return seen


def read_all(connection: socket.socket) -> tuple[bytes, str]:
    """Read to the end; tells whether it was a reset."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        return b"".join(parts), "reset"
    return b"".join(parts), "closed"


@pytest.mark.parametrize(("fault", "end"), [("cut_after_chunks", "reset"), ("close_after_chunks", "closed")])
@pytest.mark.parametrize("pieces", [0, 1, 3, 200])
@pytest.mark.parametrize("chunk_ms", [0, 1])
def test_a_stream_that_breaks_bills_what_was_sent(simulator: Running, fault: str, end: str, pieces: int, chunk_ms: int) -> None:
    with simulator.connect(STREAM, **dict[str, Any]({fault: pieces}), chunk_ms=chunk_ms) as connection:
        seen, how = read_all(connection)
    assert (how, seen.count(b'"word "'), seen.count(b"[DONE]"), b"0\r\n\r\n" in seen) == (end, pieces, 0, False)
    assert seen.startswith(b"HTTP/1.1 200 OK\r\n")
    wait_until(lambda: simulator.last()["state"] == "broken")
    call = simulator.last()
    assert (call["finished"], call["completion_tokens"]) == (False, pieces)
    assert call["billed_nano_usd"] == 100_000 + pieces * 4_000


@pytest.mark.parametrize(("fault", "end"), [("cut_after_chunks", "reset"), ("close_after_chunks", "closed")])
def test_a_whole_answer_that_breaks_sends_nothing_and_bills_what_was_made(simulator: Running, fault: str, end: str) -> None:
    with simulator.connect(**dict[str, Any]({fault: 7})) as connection:
        assert read_all(connection) == (b"", end)
    assert simulator.last()["billed_nano_usd"] == 100_000 + 7 * 4_000


def test_a_large_stream_arrives_whole_before_the_reset(simulator: Running) -> None:
    # More than the sockets' buffers hold: what was written must have left before the connection is reset.
    body = {**STREAM, "max_tokens": 16_384}
    behaviour: dict[str, Any] = {"completion_tokens": 16_384, "padding": 500, "cut_after_chunks": 16_000}
    with simulator.connect(body, **behaviour) as connection:
        seen, how = read_all(connection)
    assert (how, seen.count(b'"word "')) == ("reset", 16_000)
    assert simulator.last()["completion_tokens"] == 16_000


def test_a_fault_after_more_pieces_than_there_are_never_happens(simulator: Running) -> None:
    assert events(simulator.chat(STREAM, completion_tokens=3, cut_after_chunks=4))


@pytest.mark.parametrize("body", [BODY, STREAM])
def test_silence_stays_until_the_client_leaves(simulator: Running, body: dict[str, Any]) -> None:
    with simulator.connect(body, silence_after_chunks=2) as connection:
        if body is STREAM:
            read_until(connection, b'"word "', 2)
        wait_until(lambda: simulator.last()["completion_tokens"] == 2)
        tally = simulator.tally()
        assert (tally["unfinished"], tally["states"]["running"], tally["cost_nano_usd"]) == (1, 1, 108_000)
        connection.settimeout(0.05)
        with pytest.raises(TimeoutError):
            connection.recv(1)
    wait_until(lambda: simulator.last()["state"] == "left")
    assert simulator.last()["billed_nano_usd"] == 108_000


@pytest.mark.parametrize("body", [BODY, STREAM])
def test_a_client_that_leaves_stops_the_generation(simulator: Running, body: dict[str, Any]) -> None:
    with simulator.connect(body, chunk_ms=5):
        wait_until(lambda: simulator.last()["completion_tokens"] >= 3)
    wait_until(lambda: simulator.last()["state"] == "left")
    call = simulator.last()
    assert 3 <= call["completion_tokens"] < 200
    assert call["billed_nano_usd"] == 100_000 + call["completion_tokens"] * 4_000
    # Nothing is made after it was found to be gone.
    again = simulator.chat(body, chunk_ms=1)
    assert again.status_code == 200
    assert simulator.tally()["generated"][0] == call


def test_a_client_that_does_not_read_holds_the_generation_and_stops_it_by_leaving(simulator: Running) -> None:
    body = {**STREAM, "max_tokens": 16_384}
    with simulator.connect(body, completion_tokens=16_384, padding=4_000) as connection:
        read_until(connection, b'"word "')
        assert simulator.last()["state"] == "running"
    wait_until(lambda: simulator.last()["state"] == "left")
    assert 1 <= simulator.last()["completion_tokens"] < 16_384


def test_a_client_that_leaves_before_the_generation_costs_nothing(simulator: Running) -> None:
    for behaviour in ({"barrier": "shut"}, {"latency_ms": 600_000}):
        with simulator.connect(**behaviour):
            wait_until(lambda: simulator.tally()["states"]["running"] == 1)
        wait_until(lambda: simulator.tally()["states"]["running"] == 0)
        assert (simulator.last()["state"], simulator.last()["billed_nano_usd"]) == ("left", 0)
    wait_until(lambda: simulator.waiting("shut") == 0)


@pytest.mark.parametrize("body", [BODY, STREAM])
def test_barriers_hold_until_opened_and_stay_open_until_reset(simulator: Running, body: dict[str, Any]) -> None:
    with simulator.connect(body, barrier="b") as one, simulator.connect(body, barrier="b") as two:
        wait_until(lambda: simulator.waiting("b") == 2)
        assert (simulator.tally()["unfinished"], simulator.tally()["cost_nano_usd"]) == (2, 0)
        simulator.open("b")
        for connection in (one, two):
            assert read_until(connection, b"chatcmpl-").startswith(b"HTTP/1.1 200 OK\r\n")
    assert simulator.chat(body, barrier="b").status_code == 200
    assert simulator.waiting("b") == 0
    simulator.client.post("/simulator/reset")
    with simulator.connect(body, barrier="b"):
        wait_until(lambda: simulator.waiting("b") == 1)


def test_a_barrier_in_the_middle_of_a_stream(simulator: Running) -> None:
    with simulator.connect(STREAM, completion_tokens=5, barrier="middle", barrier_after_chunks=2) as connection:
        read_until(connection, b'"word "', 2)
        wait_until(lambda: simulator.waiting("middle") == 1)
        assert simulator.last()["completion_tokens"] == 2
        simulator.open("middle")
        assert read_until(connection, b"[DONE]").count(b'"word "') == 3
    assert simulator.last()["state"] == "finished"


def test_a_reset_lets_go_what_waits_and_forgets_it(simulator: Running) -> None:
    with simulator.connect(barrier="old") as connection:
        wait_until(lambda: simulator.waiting("old") == 1)
        simulator.client.post("/simulator/reset")
        read_until(connection, b"chatcmpl-")
    tally = simulator.tally()
    assert (tally["requests"], tally["cost_nano_usd"], tally["generated"]) == (0, 0, [])


def test_an_error_in_a_stream_ends_it(simulator: Running) -> None:
    for told, error in (({}, "simulated error"), ({"error_body": {"error": {"message": "mine"}}}, "mine")):
        answer = simulator.chat(STREAM, error_after_chunks=2, **told)
        *pieces, last, rest = answer.text.split("\n\n")
        assert (answer.status_code, len(pieces), rest) == (200, 2, "")
        assert json.loads(last.removeprefix("data: "))["error"]["message"] == error
        call = simulator.last()
        assert (call["state"], call["billed_nano_usd"]) == ("broken", 108_000)
    answer = simulator.chat(error_after_chunks=2)
    assert (answer.status_code, answer.json()["error"]["message"]) == (200, "simulated error")


def test_an_answer_that_ends_too_early(simulator: Running) -> None:
    answer = simulator.chat(STREAM, end_after_chunks=2)
    assert (answer.status_code, answer.text.count("word"), "[DONE]" in answer.text) == (200, 2, False)
    whole = simulator.chat(end_after_chunks=2)
    assert whole.status_code == 200
    with pytest.raises(ValueError, match=r"."):
        whole.json()
    assert {c["billed_nano_usd"] for c in simulator.tally()["generated"]} == {108_000}


def test_errors_and_redirects_bill_nothing(simulator: Running) -> None:
    for status, kind in ((400, "invalid_request_error"), (429, "rate_limit_error"), (503, "server_error")):
        answer = simulator.chat(STREAM, status=status)
        assert answer.status_code == status
        assert answer.json()["error"] == {
            "message": f"simulated status {status}", "type": kind, "param": None, "code": None
        }  # fmt: skip
    answer = simulator.chat(status=418, error_body=["mine"])
    assert (answer.status_code, answer.json()) == (418, ["mine"])
    answer = simulator.chat(redirect="http://127.0.0.2/elsewhere")
    assert (answer.status_code, answer.headers["location"]) == (307, "http://127.0.0.2/elsewhere")
    tally = simulator.tally()
    assert (tally["requests"], tally["states"]["refused"], tally["cost_nano_usd"]) == (5, 5, 0)
    assert [c["status"] for c in tally["generated"]] == [400, 429, 503, 418, 307]


def test_a_connection_serves_on_after_an_answer_that_was_left(simulator: Running) -> None:
    with httpx.Client(base_url=simulator.url) as client:
        with client.stream("POST", "/v1/chat/completions", json=STREAM, headers=headers({"silence_after_chunks": 1})):
            pass
        assert client.post("/v1/chat/completions", json=BODY, headers=headers({})).status_code == 200


def test_without_a_socket_a_reset_is_a_fault_of_the_test() -> None:
    async def call() -> None:
        transport = httpx.ASGITransport(create_app({"cut_after_chunks": 1}, key="k"))
        async with httpx.AsyncClient(transport=transport, base_url="http://simulator") as client:
            await client.post("/v1/chat/completions", json=BODY, headers={"authorization": "Bearer k"})

    with pytest.raises(RuntimeError, match=r"only under pgbudget\.simulator\.serve"):
        asyncio.run(call())
