"""What goes to a provider, and what of its answer goes back to the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from pgbudget.config import Account, Config
from pgbudget.upstream import Broken, NotSent, Upstream, pieces, read, returned_headers
from pgbudget.wire.providers import provider


def test_a_provider_cannot_speak_as_the_gateway() -> None:
    said = {
        "Content-Type": "application/json",
        "X-Request-Id": "r1",
        "X-PGBudget-Error-Source": "gateway",
        "x-pgbudget-cost-usd": "0",
        "Set-Cookie": "a=b",
    }
    response = httpx.Response(200, headers=said)
    assert returned_headers(response) == [(b"content-type", b"application/json"), (b"x-request-id", b"r1")]


class Body(httpx.AsyncByteStream):
    """Pieces, each after so many seconds."""

    def __init__(self, *waits: float) -> None:
        self._waits = waits

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for wait in self._waits:
            await asyncio.sleep(wait)
            yield b"piece"


IDLE = 0.8


def test_a_provider_that_falls_silent_is_not_waited_for() -> None:
    async def run() -> list[bytes]:
        found: list[bytes] = []

        async def read() -> None:
            async for piece in pieces(httpx.Response(200, stream=Body(0, IDLE / 4, IDLE / 4, 60)), IDLE):
                found.append(piece)

        with pytest.raises(httpx.ReadTimeout):
            await read()
        # Whoever waited goes on as before.
        await asyncio.sleep(0)
        return found

    assert asyncio.run(asyncio.wait_for(run(), 30)) == [b"piece"] * 3


def test_how_long_a_client_takes_is_not_the_silence_of_its_provider() -> None:
    async def run() -> int:
        count = 0
        async for _ in pieces(httpx.Response(200, stream=Body(0, 0, 0)), IDLE):
            count += 1
            await asyncio.sleep(1.5 * IDLE)
        return count

    assert asyncio.run(asyncio.wait_for(run(), 30)) == 3


def test_who_is_cancelled_is_cancelled_whatever_the_provider_does() -> None:
    async def read() -> None:
        async for _ in pieces(httpx.Response(200, stream=Body(60)), IDLE):
            pass

    async def run() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(IDLE / 4):
                await read()
        task = asyncio.create_task(read())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(run(), 30))


def called(answer: bytes, call: Callable[[Upstream, Account], Awaitable[None]]) -> list[bytes]:
    """What a provider is sent that answers everything with these bytes, and closes the connection."""
    requests: list[bytes] = []

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"{}"))
        writer.write(answer)
        await writer.drain()
        writer.close()

    async def run() -> None:
        upstream = Upstream(Config(dsn="", connect_seconds=5, first_byte_seconds=5))
        async with await asyncio.start_server(answers, "localhost") as server:
            port = server.sockets[0].getsockname()[1]
            try:
                await call(upstream, Account(f"http://localhost:{port}/v1", "sk-provider"))
            finally:
                await upstream.close()

    asyncio.run(asyncio.wait_for(run(), 30))
    return requests


def test_what_one_caller_was_given_to_keep_does_not_come_back_with_another() -> None:
    async def twice(upstream: Upstream, account: Account) -> None:
        for _ in range(2):
            response = await upstream.post(account, provider("openai"), "/chat/completions", b"{}", [], False)
            assert await read(response, 5) == [b"[]"]

    head = b"HTTP/1.1 200 OK\r\nset-cookie: who=first; Path=/\r\ncontent-length: 2\r\nconnection: close\r\n\r\n"
    requests = called(head + b"[]", twice)
    assert [b"cookie" in request.lower() for request in requests] == [False, False]


@pytest.mark.parametrize(
    "answer", [b"", b"hello\r\n\r\n", b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\n: nothing\r\n\r\n"], ids=lambda answer: answer[:14]
)
def test_what_is_no_answer_may_have_cost_something(answer: bytes) -> None:
    async def once(upstream: Upstream, account: Account) -> None:
        with pytest.raises(Broken):
            await upstream.post(account, provider("openai"), "/chat/completions", b"{}", [], False)

    called(answer, once)


@pytest.mark.parametrize("body", [b"2\r\n[]\r\n", b"2\r\n[]\r\nnonsense\r\n"], ids=["not ended", "no length"])
def test_a_body_that_does_not_end_is_broken(body: bytes) -> None:
    async def whole(upstream: Upstream, account: Account) -> None:
        response = await upstream.post(account, provider("openai"), "/chat/completions", b"{}", [], False)
        try:
            async for _ in pieces(response, 5):
                pass
        finally:
            await response.aclose()

    async def once(upstream: Upstream, account: Account) -> None:
        with pytest.raises((Broken, httpx.HTTPError)):
            await whole(upstream, account)

    called(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + body, once)


def test_where_nobody_listens_nothing_was_sent() -> None:
    async def once(upstream: Upstream, account: Account) -> None:
        for url in ("http://127.0.0.1:9/v1", "nonsense"):
            with pytest.raises(NotSent):
                await upstream.post(Account(url, "k"), provider("openai"), "/chat/completions", b"{}", [], False)

    assert called(b"", once) == []
