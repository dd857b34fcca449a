"""A connection that sends no request is closed; one that is at it gets its time anew with each request."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from unittest import mock

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from pgbudget.embedded import free_port
from pgbudget.http import LEAVING, leaving, respond
from pgbudget.protocol import Gathered, StrictProtocol
from tests.support.processes import wait_until

HEAD = b"GET / HTTP/1.1\r\nhost: x\r\n"


left = threading.Event()


class Hasty(StrictProtocol):
    head_seconds = 0.5


@pytest.fixture(scope="module")
def port() -> Iterator[int]:

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/stream":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"first", "more_body": True})
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        if scope["path"] == "/leave":
            # So that much has come before it is read, and reading was stopped.
            await asyncio.sleep(0.3)
            while (await receive())["more_body"]:
                pass
            assert LEAVING in scope["extensions"]
            await leaving(scope, receive)
            left.set()
            return
        if scope["path"] == "/late":
            await asyncio.sleep(3 * Hasty.head_seconds)
        await respond(send, 200, {})

    number = free_port()
    server = uvicorn.Server(
        uvicorn.Config(app, port=number, http=Hasty, lifespan="off", log_config=None, access_log=False, server_header=False)
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: server.started)
    yield number
    server.should_exit = True
    thread.join(10)


@pytest.fixture
def client(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connected:
        yield connected


def read_answers(client: socket.socket, count: int) -> None:
    """Read until so many requests are answered."""
    answer = b""
    while answer.count(b"HTTP/1.1 200 ") < count:
        piece = client.recv(1 << 16)
        assert piece, answer
        answer += piece


def until_closed(client: socket.socket) -> bytes:
    return b"".join(iter(lambda: client.recv(1 << 16), b""))


def test_a_connection_that_says_nothing_is_closed_without_a_word(client: socket.socket) -> None:
    assert until_closed(client) == b""


@pytest.mark.parametrize("head", [b"G", b"GET / HT", HEAD, HEAD + b"x: y"])
def test_headers_that_do_not_end_are_timed_out(client: socket.socket, head: bytes) -> None:
    client.sendall(head)
    answer = until_closed(client)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"request_timeout"' in answer
    assert b"connection: close" in answer


def test_headers_that_drip_get_no_more_time(client: socket.socket) -> None:
    client.settimeout(0.05)
    answer = b""
    client.sendall(HEAD)
    for _ in range(200):
        try:
            client.sendall(b"x: y\r\n")
            answer = client.recv(1 << 16)
            break
        except TimeoutError:
            continue
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_each_request_has_its_time(client: socket.socket) -> None:
    client.sendall(HEAD + b"\r\n")
    assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    client.sendall(HEAD)
    assert client.recv(1 << 16).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("rest", [b"\r", b"\r\n", b"y"])
def test_what_begins_no_request_keeps_no_connection(client: socket.socket, rest: bytes) -> None:
    # The last is of a body that was not waited for.
    client.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (9 if rest == b"y" else 0))
    answer = client.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.1 200 ")
    client.sendall(rest)
    assert b"HTTP/1.1" not in until_closed(client)


@pytest.mark.parametrize("behind", [HEAD, b"nonsense\r\n\r\n", b"\0", b"GET // HTTP/1.1\r\nhost: x\r\n\r\n"])
def test_what_is_wrong_with_the_next_request_does_not_answer_the_first(client: socket.socket, behind: bytes) -> None:
    client.sendall(b"GET /late HTTP/1.1\r\nhost: x\r\n\r\n" + behind)
    assert until_closed(client) == b""


def test_a_head_that_is_not_read_is_not_late(client: socket.socket) -> None:
    client.sendall(b"GET /late HTTP/1.1\r\nhost: x\r\n\r\n" + HEAD + b"\r\n" + HEAD)
    client.settimeout(0.2)
    with pytest.raises(TimeoutError):
        client.recv(1)
    client.settimeout(10)
    client.sendall(b"\r\n")
    read_answers(client, 3)


def test_an_answer_that_runs_is_not_written_into(client: socket.socket) -> None:
    client.sendall(b"GET /stream HTTP/1.1\r\nhost: x\r\n\r\n")
    answer = client.recv(1 << 16)
    client.sendall(b"nonsense\r\n\r\n")
    answer += until_closed(client)
    assert answer.count(b"HTTP/1.1") == 1
    assert b"first" in answer
    assert b"error" not in answer


def test_requests_in_one_piece_are_answered_in_turn(client: socket.socket) -> None:
    # The end of a large body and the beginning of the next request may come together.
    large = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 200000\r\n\r\n" + b"y" * 200_000
    client.sendall(large + HEAD)
    client.sendall(b"\r\n")
    read_answers(client, 2)


@pytest.mark.parametrize("size", [0, 1, 400 << 10])
def test_a_client_that_leaves_is_seen_however_large_its_body(client: socket.socket, size: int) -> None:
    left.clear()
    client.sendall(b"POST /leave HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (size, bytes(size)))
    assert not left.wait(0.5)
    client.close()
    assert left.wait(10)


def test_what_is_written_in_one_turn_goes_out_in_one_piece() -> None:
    async def run() -> list[mock._Call]:
        below = mock.Mock(**{"is_closing.return_value": False})
        transport = Gathered(below, asyncio.get_running_loop())
        for part in (b"head", b"", b"body"):
            transport.write(part)
        assert not below.mock_calls
        await asyncio.sleep(0)
        # What is much does not wait, nor does what is there when it is closed.
        transport.write(b"next")
        transport.write(bytes(Gathered.most))
        transport.write(b"last")
        transport.close()
        await asyncio.sleep(0)
        below.is_closing.return_value = True
        transport.write(b"late")
        await asyncio.sleep(0)
        return [call for call in below.mock_calls if call[0] != "is_closing"]

    assert asyncio.run(run()) == [
        mock.call.writelines([b"head", b"body"]),
        mock.call.writelines([b"next", bytes(Gathered.most)]),
        mock.call.writelines([b"last"]),
        mock.call.close(),
    ]
