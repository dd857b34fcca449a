"""What of a provider's answer goes back to the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from pgbudget.upstream import pieces, returned_headers


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
